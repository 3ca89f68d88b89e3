"""A byte-pair vocabulary in CLIP's own format, grown until every word of the demo captions is one token.

The layout is that of OpenAI's CLIP (Radford et al. 2021, `simple_tokenizer.py`): 256 byte letters, the same
256 closing a word (`</w>`), one token for each merge, then the two special tokens. Any text can be spelled.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

START, END, PAD = "<|startoftext|>", "<|endoftext|>", "!"
LENGTH = 77
_WORD = re.compile(r"[a-z]+|[0-9]|[^\sa-z0-9]+")


@dataclass(frozen=True)
class Vocabulary:
    """Merges in the order they apply, and the tokens in the order of their ids."""

    merges: tuple[tuple[str, str], ...]
    tokens: tuple[str, ...]


def byte_letters() -> list[str]:
    """Return 256 printable letters that stand for bytes, in the order in which CLIP numbers them."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = (byte for byte in range(256) if byte not in printable)
    return [chr(byte) for byte in printable] + [chr(256 + i) for i, _ in enumerate(others)]


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for letter in word:
        if out and (out[-1], letter) == pair:
            out[-1] += letter
        else:
            out.append(letter)
    return tuple(out)


def grow(texts: Iterable[str]) -> Vocabulary:
    """Return the vocabulary whose merges make every word of `texts` (lower-case ASCII) a single token."""
    counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    words = {(*word[:-1], word[-1] + "</w>"): count for word, count in counts.items()}
    merges: list[tuple[str, str]] = []
    while any(len(word) > 1 for word in words):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            pairs.update(dict.fromkeys(itertools.pairwise(word), count))
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        words = {_merged(word, merges[-1]): count for word, count in words.items()}
    letters = byte_letters()
    closing = [letter + "</w>" for letter in letters]
    return Vocabulary(tuple(merges), (*letters, *closing, *map("".join, merges), START, END))


def write(vocabulary: Vocabulary, folder: Path) -> None:
    """Write the files that transformers' CLIPTokenizer reads; padding is "!", as in Stable Diffusion 2.1."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    merges = "".join(f"{first} {second}\n" for first, second in vocabulary.merges)
    special = {"bos_token": START, "eos_token": END, "pad_token": PAD, "unk_token": END}
    config = special | {"model_max_length": LENGTH, "tokenizer_class": "CLIPTokenizer", "do_lower_case": True}
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")

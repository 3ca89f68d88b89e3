"""A small BPE vocabulary in the files that CLIP checkpoints have."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from msd.run.runtime.tokenizer import byte_alphabet
from msd.run.runtime.tokenizer_files import END, START

CORPUS = """
the quick brown fox jumps over the lazy dog and then the other dogs don't jump over it
a photograph of an astronaut riding a horse on the moon, oil painting, highly detailed; trending!!!
three small red circles above two large blue squares on a white background (masterpiece:1.2) <lora> #art @home
i've seen it's what they'll have done we're there you'd say 1999 2024 100% "quoted" 'single'
naïve café über straße σίγμα 日本語の写真
"""


def train(words: list[str], count: int) -> list[tuple[str, str]]:
    """Learn `count` merges: again and again the most frequent pair, the first of equals."""
    alphabet = byte_alphabet()
    spelled = [[alphabet[byte] for byte in word.lower().encode()] for word in words]
    spelled = [[*word[:-1], word[-1] + "</w>"] for word in spelled]
    merges: list[tuple[str, str]] = []
    for _ in range(count):
        pairs = Counter(pair for word in spelled for pair in pairwise(word))
        if not pairs:
            break
        merges.append(pairs.most_common(1)[0][0])
        spelled = [_merged(word, merges[-1]) for word in spelled]
    return merges


def write_tokenizer(
    folder: Path, config: dict[str, Any] | None = None, special_tokens_map: dict[str, Any] | None = None
) -> Path:
    """Write vocab.json, merges.txt and the two JSON files as Stable Diffusion's checkpoints have them."""
    merges = train(CORPUS.split(), 160)
    letters = byte_alphabet()
    tokens = [*sorted(letters), *(c + "</w>" for c in sorted(letters)), *(a + b for a, b in merges)]
    vocabulary = {token: id for id, token in enumerate(dict.fromkeys([*tokens, START, END]))}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    base = {"model_max_length": 77, "tokenizer_class": "CLIPTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(base | (config or SD15)), "utf-8")
    if special_tokens_map is not None:
        (folder / "special_tokens_map.json").write_text(json.dumps(special_tokens_map), "utf-8")
    return folder


def added(content: str, **flags: bool) -> dict[str, Any]:
    """A special token spelled out, as older checkpoints do it."""
    base = {"lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    return {"content": content, **base, **flags}


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    joined = "\0".join(word)
    return (
        f"\0{joined}\0".replace(f"\0{pair[0]}\0{pair[1]}\0", f"\0{pair[0]}{pair[1]}\0")
        .strip("\0")
        .split("\0")
    )


SD15 = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
SD21 = {
    name: {"__type": "AddedToken", **added(content)}
    for name, content in (("bos_token", START), ("eos_token", END), ("unk_token", END))
} | {"pad_token": END}
SD21_MAP = {"bos_token": added(START), "eos_token": added(END), "pad_token": "!", "unk_token": added(END)}

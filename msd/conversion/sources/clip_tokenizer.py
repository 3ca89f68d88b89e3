"""CLIP's public tokenizer, for checkpoints without one.

Every Stable Diffusion 1.x and 2.x has the vocabulary of Radford et al., arXiv:2103.00020: the 256 bytes, each
also as the end of a word, 48894 merges in order, and two special tokens. The package contains the merges.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

from msd.run.runtime.tokenizer import byte_alphabet
from msd.run.runtime.tokenizer_files import END, LENGTH, START

MERGES = Path(__file__).parent / "clip" / "merges.txt.gz"
VOCABULARY = 49408
"""The number of tokens."""

PAD_1, PAD_2 = END, "!"
"""The padding tokens of Stable Diffusion 1.x and 2.x."""


def clip_tokenizer(pad: str) -> dict[str, Callable[[], bytes]]:
    """Return functions that create the tokenizer's files, by file name; `pad` is the padding token."""
    special = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": pad}
    config = {"model_max_length": LENGTH, "tokenizer_class": "CLIPTokenizer", **special}
    return {
        "vocab.json": lambda: _json(_vocabulary()),
        "merges.txt": _merges,
        "tokenizer_config.json": lambda: _json(config),
        "special_tokens_map.json": lambda: _json(special),
    }


def _merges() -> bytes:
    return gzip.decompress(MERGES.read_bytes())


def _vocabulary() -> dict[str, int]:
    letters = sorted(byte_alphabet())
    joined = (line.replace(" ", "") for line in _merges().decode("utf-8").splitlines()[1:])
    tokens = [*letters, *(letter + "</w>" for letter in letters), *joined, START, END]
    return {token: id for id, token in enumerate(tokens)}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8")

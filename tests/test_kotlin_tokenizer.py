"""The Kotlin tokenizer, run on a JVM, against msd.run.runtime.tokenizer: token by token, letter by letter."""

from __future__ import annotations

import functools
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import regex

from msd.export.app import manifest as app
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.run.runtime.tokenizer import open_tokenizer
from msd.run.runtime.tokenizer_files import END, START
from tests.app_bundles import write_app, write_clip_app
from tests.clip_files import SD15, SD21, added
from tests.jvm import Jvm
from tests.kotlinc import SOURCES

EXTRA = [
    "ΑΣ", "İ", "é", "e\u0301", "ﬁ", "🦊", "👩\u200d🚀",
    "日本", "１２", "²", "\u3000", "\x85", "\x00", "\ufeff", "ǅ",
    "ŉ", "ß", "ẞ", "क्षि",
    "ไทย", "한국", "\u1112\u1161\u11ab", "Ⅻ", "½", "\u1680", "\u202f", "\u180e", "\u200b", "\x1c", "\x1f",
]  # fmt: skip
PIECES = [
    "the", "'s", "'LL", "don't", "'re", "'", "''ve", "!", "!!", "  ", "\t\n", "\r\n", START, END, END.upper(),
    START.title(), "<|", "|>", "cat", "Cat2", "photograph", "x" * 300, "astronaut-riding", "1999",
    "(masterpiece:1.2)", "<cat-toy>", "<CAT-TOY>_1", *EXTRA,
]  # fmt: skip


HALVES = ["\ud800", "\udfff", "a\ud83d", "\ude00b"]
"""Halves of pairs of UTF-16, which a prompt that was cut may hold."""


@functools.cache
def letters() -> list[str]:
    """What Unicode 3.2 had: older than any Java's."""
    old = unicodedata.ucd_3_2_0
    return [c for c in map(chr, range(0x2FFFF)) if old.category(c) not in ("Cn", "Cs")]


def captions(count: int, seed: int) -> list[str]:
    """Random texts of such pieces and of single letters."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        parts = [
            chance.choice([chance.choice(PIECES), chance.choice(letters()), " "])
            for _ in range(chance.randint(0, 60))
        ]
        made.append("".join(parts))
    return made


OVERLAPPING = {
    "0": added("!", normalized=False),
    "33": added("!!", normalized=False),
    "34": added("ca"),
    "35": added("cat"),
}
INVERSIONS = {
    "674": added("<Cat-Toy>"),
    "675": added("<Cat-Toy>_1"),
    "676": added("<Cat-Toy>_2"),
    "677": added("astro"),
}
TOKENIZERS = {
    "sd15": None,
    "other pad": {**SD15, "pad_token": added("!", normalized=False)},
    "late specials": SD21,
    "overlapping specials": {**SD15, "added_tokens_decoder": OVERLAPPING},
    "short": {**SD15, "model_max_length": 9},
    "textual inversions": {**SD15, "added_tokens_decoder": INVERSIONS},
}


@pytest.mark.parametrize("config", TOKENIZERS.values(), ids=TOKENIZERS)
def test_every_caption_has_the_same_tokens(
    config: dict[str, Any] | None, kotlin: Jvm, tmp_path: Path
) -> None:
    folder = write_app(tmp_path / "app", tokenizer=config)
    texts = [*captions(1000, 1), *HALVES]
    found = kotlin.ask("tokens", folder=str(folder), texts=texts)
    ours = open_tokenizer(folder / "tokenizer")
    for text, ids in zip(texts, found, strict=True):
        assert ids == ours.encode(text).tolist(), repr(text)
    assert len({tuple(ids) for ids in found}) > 800


def test_the_vocabulary_of_clip_makes_the_same_tokens(kotlin: Jvm, tmp_path: Path) -> None:
    """49 408 tokens and 48 894 merges, from the package's own copy of CLIP's."""
    folder = write_clip_app(tmp_path / "app")
    texts = [
        *captions(300, 2),
        "a photograph of an astronaut riding a horse",
        "Müller's Straße, 東京 2024!!!",
    ]
    found = kotlin.ask("tokens", folder=str(folder), texts=texts)
    ours = open_tokenizer(folder / "tokenizer")
    assert found == [ours.encode(text).tolist() for text in texts]
    assert max(max(ids) for ids in found) == 49407


def test_opening_a_tokenizer_costs_as_much_for_each_token(kotlin: Jvm, tmp_path: Path) -> None:
    """Counted in bytes that opening allocates, the second time: the first one loads classes too."""
    whole = write_clip_app(tmp_path / "whole")
    half = tmp_path / "half"
    half.mkdir()
    (half / app.NAME).write_bytes((whole / app.NAME).read_bytes())
    for name in (VOCABULARY, MERGES):
        lines = (whole / name).read_text("utf-8").splitlines(keepends=True)
        (half / name).write_text("".join(lines[: len(lines) // 2]), "utf-8")
    costs = {
        folder: [kotlin.ask("opening", folder=str(folder))["bytes"] for _ in range(2)][1]
        for folder in (whole, half)
    }
    assert 1.5 < costs[whole] / costs[half] < 2.5
    assert costs[whole] < 500 * 49_408


def test_no_source_uses_a_regular_expression() -> None:
    """Android's matcher copies the whole text whenever it begins; the remarks need one for each pattern."""
    for path in (path for path in SOURCES if path.name != "Remarks.kt"):
        assert not re.search(r"Regex|java\.util\.regex|split\(", path.read_text("utf-8")), path


def test_every_letter_is_of_the_same_kind(kotlin: Jvm) -> None:
    """Every code point that the JVM's Unicode has; newer letters are other signs to it."""
    kinds, lower = kotlin.ask("kinds"), kotlin.ask("lowercase")
    assert len(kinds) == 0x110000
    known = [
        c for c, kind in zip(map(chr, range(0x110000)), kinds, strict=True) if kind != "-" and not is_half(c)
    ]
    assert len(known) > 140_000
    for kind, pattern in (("L", r"\p{L}"), ("N", r"\p{N}"), ("S", r"\s"), ("O", r"[^\s\p{L}\p{N}]")):
        assert [c for c in known if kinds[ord(c)] == kind] == regex.findall(pattern, "".join(known))
    assert {str(ord(c)): c.lower() for c in known if c.lower() != c} == lower


def is_half(c: str) -> bool:
    """Whether it is half of a pair of UTF-16: no letter, and Python has none in a text that it decoded."""
    return 0xD800 <= ord(c) < 0xE000

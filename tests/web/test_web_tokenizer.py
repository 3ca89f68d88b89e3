"""The page's tokenizer, run in Node.js, against the runtime's: token by token, letter by letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.export.app.manifest import NAME
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.run.runtime.prompt import tokenize
from msd.run.runtime.special_token import normalize
from msd.run.runtime.tokenizer import open_tokenizer
from tests.app_bundles import write_app, write_clip_app
from tests.clip_files import SD15
from tests.test_kotlin_tokenizer import HALVES, PIECES, TOKENIZERS, captions, is_half, letters
from tests.web.node import evaluate

ENCODE = """
import { Tokenizer } from './msd/tokenizer.js';
const [tokens, merges, facts, texts, chunks] = input;
const tokenizer = new Tokenizer(tokens, merges, facts);
console.log(JSON.stringify(texts.map((text) => tokenizer.encode(text, chunks).map((ids) => [...ids]))));
"""


def encoded(folder: Path, texts: list[str], chunks: int = 1) -> list[list[list[int]]]:
    """Return the page's ids of the chunks of each text, by an app's tokenizer."""
    tokens, merges = ((folder / name).read_text("utf-8") for name in (VOCABULARY, MERGES))
    facts = json.loads((folder / NAME).read_text("utf-8"))["tokenizers"]["tokenizer"]
    found: list[list[list[int]]] = evaluate(ENCODE, tokens, merges, facts, texts, chunks)
    return found


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app with CLIP's own 49 408 tokens and 48 894 merges."""
    return write_clip_app(tmp_path_factory.mktemp("clip") / "app")


@pytest.mark.parametrize("config", TOKENIZERS.values(), ids=TOKENIZERS)
def test_every_caption_has_the_same_tokens(config: dict[str, Any] | None, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", tokenizer=config)
    texts = [*captions(500, 1), *HALVES]
    ours = open_tokenizer(folder / "tokenizer")
    for text, (ids,) in zip(texts, encoded(folder, texts), strict=True):
        assert ids == ours.encode(text).tolist(), repr(text)


def test_the_vocabulary_of_clip_makes_the_same_tokens(clip: Path) -> None:
    texts = [*captions(300, 2), "Müller's Straße, 東京 2024!!!", "xyz" * 3000, "a photograph of an astronaut"]
    found, ours = encoded(clip, texts), open_tokenizer(clip / "tokenizer")
    assert [ids for (ids,) in found] == [ours.encode(text).tolist() for text in texts]
    assert max(max(ids) for (ids,) in found) == 49407


TEXTS = st.lists(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=8) | st.sampled_from([*" ,.:'"])).map("".join),
    min_size=200,
    max_size=200,
)


@settings(max_examples=4)
@given(TEXTS)
def test_any_text_has_the_same_tokens(clip: Path, texts: list[str]) -> None:
    """Letters that are newer than Python's Unicode aside: to a newer browser they may be letters."""
    old = set(letters())
    texts = ["".join(c for c in text if c in old) for text in texts]
    ours = open_tokenizer(clip / "tokenizer")
    assert [ids for (ids,) in encoded(clip, texts)] == [ours.encode(text).tolist() for text in texts]


@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
def test_long_prompts_are_cut_into_the_same_chunks(chunks: int, clip: Path) -> None:
    texts = ["", "three red circles and two blue squares " * 25, "a " * 75, "a " * 76, *captions(50, 3)]
    ours = open_tokenizer(clip / "tokenizer")
    wanted = [tokenize(ours, text, chunks=chunks).tokens.tolist() for text in texts]
    assert encoded(clip, texts, chunks) == wanted


def test_special_tokens_of_any_signs_are_matched(tmp_path: Path) -> None:
    """Signs that mean something in a pattern; one token within another; one spelled in two ways."""
    contents = [
        "<a.b>",
        "(x|y)*",
        "[^\\d]+$",
        "a-b/c",
        "{2,}?",
        "<a.b>_1",
        "🦊",
        "🦊🦊",
        "<TOY>",
        "<toy>",
        "\\w",
    ]
    config = {**SD15, "added_tokens_decoder": {
        str(20 + i): {"content": content, "lstrip": False, "normalized": i % 3 == 0, "rstrip": False,
                      "single_word": False}
        for i, content in enumerate(contents)
    }}  # fmt: skip
    folder = write_app(tmp_path / "app", tokenizer=config)
    texts = [f"{a} {b}{a} {a.upper()}x" for a in contents for b in contents]
    ours = open_tokenizer(folder / "tokenizer")
    found = encoded(folder, texts)
    assert [ids for (ids,) in found] == [ours.encode(text).tolist() for text in texts]
    used = {id for (ids,) in found for id in ids}
    assert len(used & set(range(20, 31))) >= 10


def test_every_letter_is_of_the_same_kind() -> None:
    """Every code point of Unicode 3.2, which every browser has; JavaScript's own \\s is another."""
    script = r"""
    const kinds = { L: /\p{L}/u, N: /\p{N}/u, S: /\p{White_Space}/u };
    const kindOf = (c) => Object.keys(kinds).filter((kind) => kinds[kind].test(c)).join('');
    console.log(JSON.stringify(input.map((c) => [kindOf(c), c.toLowerCase()])));
    """
    known = [c for c in letters() if not is_half(c)]
    for c, (kind, lower) in zip(known, evaluate(script, *known), strict=True):
        patterns = {"L": r"\p{L}", "N": r"\p{N}", "S": r"\s"}
        assert kind == "".join(name for name, pattern in patterns.items() if regex.fullmatch(pattern, c)), c
        assert normalize(f"x{lower}x") == normalize(f"x{c}x"), c


def test_ids_are_counted_before_they_are_cut(clip: Path) -> None:
    """As the page says how many tokens a prompt has."""
    script = """
    import { Tokenizer } from './msd/tokenizer.js';
    const tokenizer = new Tokenizer(input[0], input[1], input[2]);
    console.log(JSON.stringify([tokenizer.innerIds(input[3]).length, tokenizer.room]));
    """
    tokens, merges = ((clip / name).read_text("utf-8") for name in (VOCABULARY, MERGES))
    facts = json.loads((clip / NAME).read_text("utf-8"))["tokenizers"]["tokenizer"]
    assert evaluate(script, tokens, merges, facts, "a cat " * 100) == [200, 75]

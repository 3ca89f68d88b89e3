"""Prompts: their chunks, what is cut, and weights against AUTOMATIC1111's arithmetic in torch."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import BadConfig
from msd.run.runtime import prompt_syntax
from msd.run.runtime.prompt import emphasized, tokenize
from msd.run.runtime.prompt_syntax import WeightedText, pieces_of
from msd.run.runtime.tokenizer import Tokenizer, open_tokenizer
from tests.clip_files import SD15, added, write_tokenizer

STRONG = 1.1
EXAMPLES = {
    "normal text": [("normal text", 1)],
    "an (important) word": [("an ", 1), ("important", STRONG), (" word", 1)],
    "an [unimportant] word": [("an ", 1), ("unimportant", 1 / STRONG), (" word", 1)],
    "(unbalanced": [("unbalanced", STRONG)],
    "closed) once] more": [("closed) once] more", 1)],
    r"\(literal\] \\ back\slash": [(r"(literal] \ backslash", 1)],
    "(one)(two)": [("onetwo", STRONG)],
    "a (((house:1.3)) [on] a (hill:0.5), sun, (((sky))).": [
        ("a ", 1),
        ("house", 1.3 * STRONG**2),
        (" ", STRONG),
        ("on", 1),
        (" a ", STRONG),
        ("hill", 0.5 * STRONG),
        (", sun, ", STRONG),
        ("sky", STRONG**4),
        (".", STRONG),
    ],
    "(at 10:30 today: 1.5 )": [("at 10:30 today", 1.5)],
    "(a:b) :1.2)": [("a:b", STRONG), (" :1.2)", 1)],
    "(less:-.5)[:2)": [("less", -0.5), (":2)", 1 / STRONG)],
    "(smile :-) (a:1,b)": [("smile :-", STRONG), (" ", 1), ("a:1,b", STRONG)],
    "": [("", 1)],
    "()[]": [("", 1)],
}
"""Prompts with their pieces; the first eight are also in the documentation of `parse_prompt_attention`."""

PIECES = st.lists(
    st.tuples(st.text(max_size=5), st.floats(-9, 9).map(lambda weight: round(weight, 3))), max_size=6
)
ANY = st.text(st.one_of(st.sampled_from("()[]\\:.,+-0123 a"), st.characters(exclude_categories=("Cs",))))


@cache
def tokenizer() -> Tokenizer:
    config = {"674": added("<cat>"), "675": added("<cat>_1"), "676": added("<cat>_2"), "677": added("<dog>")}
    folder = Path(tempfile.mkdtemp()) / "tokenizer"
    return open_tokenizer(write_tokenizer(folder, {**SD15, "added_tokens_decoder": config}))


@pytest.mark.parametrize(("prompt", "wanted"), EXAMPLES.items())
def test_brackets_are_weights(prompt: str, wanted: list[tuple[str, float]]) -> None:
    found = pieces_of(prompt, "weights")
    assert [piece.text for piece in found] == [text for text, _ in wanted]
    np.testing.assert_allclose([piece.weight for piece in found], [weight for _, weight in wanted], 1e-12)
    assert pieces_of(prompt, "plain") == (WeightedText(prompt, 1.0),)


@pytest.mark.parametrize("closed", ["", ":0.5)" * 900])
def test_brackets_within_brackets_make_each_piece_once(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them made each piece anew for each bracket around it, which took minutes."""
    made: list[WeightedText] = []

    def counted(*arguments: Any) -> WeightedText:
        made.append(WeightedText(*arguments))
        return made[-1]

    monkeypatch.setattr(prompt_syntax, "WeightedText", counted)
    pieces = prompt_syntax.pieces_of("(a" * 900 + closed, "weights")
    factor = 0.5 if closed else 1.1
    np.testing.assert_allclose([piece.weight for piece in pieces], factor ** np.arange(1.0, 901), 1e-12)
    assert len(made) == 1800


@given(pieces=PIECES)
def test_pieces_that_are_written_down_are_read_again(pieces: list[tuple[str, float]]) -> None:
    escaped = ((re.sub(r"([][()\\])", r"\\\1", text), weight) for text, weight in pieces)
    written = "".join(f"({text}:{weight})" for text, weight in escaped)
    expanded = [(letter, piece.weight) for piece in pieces_of(written, "weights") for letter in piece.text]
    assert expanded == [(letter, weight) for text, weight in pieces for letter in text]


@given(prompt=ANY)
def test_any_prompt_is_read_or_refused_in_a_sentence(prompt: str) -> None:
    try:
        pieces = pieces_of(prompt, "weights")
    except BadConfig:
        return
    assert pieces
    assert all(np.isfinite(piece.weight) for piece in pieces)
    if not set(prompt) & set("()[]\\"):
        assert pieces == (WeightedText(prompt, 1.0),)


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("(word:1.2.3)", "the weight '1.2.3', which is no number; one was expected, as in (word:1.2)"),
        ("(word:1,2)", "the weight '1,2', which is no number"),
        ("(word:.)", "the weight '.', which is no number"),
        ("(word:+-1)", "the weight '+-1', which is no number"),
        ("(" * 8000 + "word", "nested brackets multiply to more than float64 holds"),
        (f"(word:{'9' * 400})", "nested brackets multiply to more than float64 holds"),
    ],
)
def test_refuses_weights_that_are_no_numbers(prompt: str, problem: str) -> None:
    with pytest.raises(BadConfig, match=re.escape(problem)):
        pieces_of(prompt, "weights")


def test_refuses_an_unknown_syntax() -> None:
    with pytest.raises(BadConfig, match="prompt syntax 'bold' is not known; known are plain, weights"):
        tokenize(tokenizer(), "a dog", "bold")


def test_one_chunk_is_the_plain_prompt() -> None:
    for text in ("", "a (red) dog!", "the dog " * 60):
        prompt = tokenize(tokenizer(), text)
        assert prompt.tokens.tolist() == [tokenizer().encode(text).tolist()]
        assert (prompt.weights == 1).all()


def test_a_long_prompt_is_cut_every_75_tokens_and_each_chunk_has_its_own_ends() -> None:
    text = "the quick <dog> jumps over it, " * 29
    inner, ours = tokenizer().ids(text)[1:-1], tokenizer()
    prompt = tokenize(ours, text, chunks=4)
    assert (prompt.tokens.shape, prompt.tokens.dtype) == ((4, 77), np.int32)
    assert prompt.weights.shape == (4, 77)
    assert set(prompt.tokens[:, 0]) == {ours.start}
    assert [prompt.tokens[i, 1:76].tolist() for i in (0, 1)] == [inner[:75], inner[75:150]]
    assert set(prompt.tokens[:2, 76]) == {ours.end}
    assert len(inner) < 225
    rest = [*inner[150:], ours.end]
    assert prompt.tokens[2, 1:].tolist() == rest + [ours.pad] * (76 - len(rest))
    assert prompt.tokens[3].tolist() == ours.encode("").tolist()
    assert prompt.cut == ""


@pytest.mark.parametrize("chunks", [1, 2])
def test_what_is_cut_is_named_as_diffusers_names_it(chunks: int, tmp_path: Path) -> None:
    from transformers import CLIPTokenizer

    theirs = CLIPTokenizer.from_pretrained(write_tokenizer(tmp_path))
    text = "three small red circles above two large blue squares " * 20 + "Café 🦊, <lora> don't"
    ids = theirs(text)["input_ids"]
    removed = theirs.decode(ids[chunks * 75 + 1 : -1])
    prompt = tokenize(open_tokenizer(tmp_path), text, chunks=chunks)
    assert prompt.cut == removed
    assert prompt.cut.endswith("café 🦊, < lora > don 't")


def test_a_cut_in_the_middle_of_a_letter_still_has_a_name() -> None:
    text = "a " * 74 + "🦊 <dog> dog"
    assert tokenize(tokenizer(), text).cut.endswith("<dog> dog")


def test_each_token_has_the_weight_of_its_piece_and_the_others_one() -> None:
    ours = tokenizer()
    prompt = tokenize(ours, "a (<cat> quick:1.5) [dog]", "weights")
    plain = ours.encode("a <cat> quick dog")
    assert prompt.tokens[0].tolist() == plain.tolist()
    quick = len(ours.ids("quick")) - 2
    dog = len(ours.ids("dog")) - 2
    wanted = [1, 1, *[1.5] * (3 + quick), *[1 / STRONG] * dog]
    np.testing.assert_allclose(prompt.weights[0, : len(wanted)], wanted, rtol=1e-6)
    assert (prompt.weights[0, len(wanted) :] == 1).all()


@pytest.mark.parametrize("shape", [(3, 77, 20), (3, 1, 77, 20)])
def test_weights_multiply_rows_and_the_mean_is_restored(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    rows = random.normal(0.1, 1, shape).astype(np.float32)
    weights = np.where(random.random((3, 77)) < 0.2, random.normal(1, 1, (3, 77)), 1).astype(np.float32)
    found = emphasized(rows, weights)
    assert (found.shape, found.dtype) == (shape, np.float32)
    for chunk, multipliers, ours in zip(rows, weights, found, strict=True):
        wanted = emphasis_of_automatic1111(torch.from_numpy(chunk.reshape(1, 77, 20)), multipliers)
        np.testing.assert_allclose(ours.reshape(77, 20), wanted[0], rtol=0, atol=1e-4 * np.abs(wanted).max())
    assert emphasized(rows, np.ones((3, 77), np.float32)) is rows


def test_a_mean_of_zero_is_not_divided_by() -> None:
    rows = np.array([[[1.0], [1.0], [2.0]]], np.float32)
    found = emphasized(rows, np.array([[1, -1, 0]], np.float32))
    assert found.ravel().tolist() == [1, -1, 0]


def emphasis_of_automatic1111(z: Any, multipliers: np.ndarray) -> np.ndarray:
    """The arithmetic of modules/sd_emphasis.py's EmphasisOriginal, for z (1, tokens, width)."""
    before = z.mean()
    z = z * torch.from_numpy(multipliers)[None, :, None].expand(z.shape)
    return np.asarray((z * (before / z.mean())).numpy())

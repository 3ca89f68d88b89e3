"""What is said of prompts that other programs would read otherwise, and of what is not used as given."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.conversion.sources.clip_tokenizer import PAD_1, clip_tokenizer
from msd.models.demo import CHECKPOINT
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.prompt import tokenize
from msd.run.runtime.remarks import request_remarks
from msd.run.runtime.request import Request
from msd.run.runtime.tokenizer import Tokenizer, open_tokenizer

WEIGHTED = Guidance("two passes", 7.5)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("clip")
    for name, read in clip_tokenizer(PAD_1).items():
        (folder / name).write_bytes(read())
    return open_tokenizer(folder)


@pytest.fixture(scope="module")
def demo() -> Tokenizer:
    return open_tokenizer(Path(CHECKPOINT) / "tokenizer")


def remarks(
    tokenizer: Tokenizer,
    prompt: str,
    syntax: str = "plain",
    negative: str = "",
    guidance: Guidance = WEIGHTED,
) -> tuple[str, ...]:
    request = Request(prompt, negative, prompt_syntax=syntax, guidance=guidance.scale)  # type: ignore[arg-type]
    prompts = [tokenize(tokenizer, text, syntax) for text in guidance.prompts(prompt, negative)]
    return request_remarks(request, guidance, tokenizer, prompts)


BOTH, PLAIN = ("plain", "weights"), ("plain",)
FOREIGN = [
    ("a house <lora:add_detail:0.8>", "<lora:add_detail:0.8>; msd-convert --lora", BOTH),
    ("<lyco:x>, a house", "<lyco:x>; msd-convert --lora", BOTH),
    ("<hypernet:x:1> house", "<hypernet:x:1>; hypernetworks are not supported", BOTH),
    ("a photo of embedding:cat", "embedding:cat; msd-convert --embedding", BOTH),
    ("a cat BREAK a dog", "BREAK; long prompts are cut every 75 tokens", BOTH),
    ("a cat AND a dog", "AND; prompts are not combined", BOTH),
    ("a [cat:dog:0.5] runs", "[cat:dog:0.5]; words do not change from step to step", BOTH),
    ("a [cat::12] runs", "[cat::12]; words do not change", BOTH),
    ("a [dog:0.3]", "[dog:0.3]; words do not change", BOTH),
    ("a [cow|horse] in a field", "[cow|horse]; words do not change", BOTH),
    ("a {red|blue} ball", "{red|blue}; nothing is chosen at random", BOTH),
    ("a __colour__ ball", "__colour__; nothing is chosen at random", BOTH),
    ("a red++ ball", "red++; (word:1.2) has a weight", BOTH),
    ("a (red ball)1.4", "(red ball)1.4; (word:1.2) has a weight", BOTH),
    ("a (red:1.4) ball", "(red:1.4); msd generate --prompt-syntax weights reads weights", PLAIN),
    ("a ((red)) ball, [[blue]]", "((red)), [[blue]]; msd generate --prompt-syntax weights", PLAIN),
    (r"a ball \(red\)", r"\(, \); backslashes too; msd generate --prompt-syntax weights", PLAIN),
]


@pytest.mark.parametrize(("prompt", "said", "by"), FOREIGN)
@pytest.mark.parametrize("syntax", ["plain", "weights"])
def test_the_syntax_of_others_is_named(
    prompt: str, said: str, by: tuple[str, ...], syntax: str, clip: Tokenizer
) -> None:
    found = remarks(clip, prompt, syntax)
    assert len(found) == (syntax in by)
    if found:
        assert found[0].startswith(f"read as text: {said}")
        assert remarks(clip, "a dog", syntax, negative=prompt) == found
        assert remarks(clip, prompt, syntax, negative=prompt) == found, "once, not for each prompt"


@pytest.mark.parametrize("syntax", ["plain", "weights"])
@pytest.mark.parametrize(
    "prompt",
    [
        "a red ball (on the left), 50:50, at 16:9",
        "C# and C++20 and rock & roll [sic]",
        "a sand BREAKER; Anderson, LAND",
        "two_words and _one_",
        "<cat-toy> in 3D: a (very) good dog :)",
        "e-mail me at a@b.c; 1<2>1",
    ],
)
def test_ordinary_text_is_not_remarked_upon(prompt: str, syntax: str, clip: Tokenizer) -> None:
    assert remarks(clip, prompt, syntax) == ()


def test_only_some_of_many_are_quoted(clip: Tokenizer) -> None:
    (said,) = remarks(clip, " ".join(f"(word{i}:1.{i})" for i in [*range(1, 6), 1]))
    assert said.startswith("read as text: (word1:1.1), (word2:1.2), (word3:1.3) and 2 more; ")


def test_words_of_which_a_small_vocabulary_has_only_pieces(demo: Tokenizer, clip: Tokenizer) -> None:
    assert remarks(demo, "two red circles, on a plain background") == ()
    (said,) = remarks(demo, "Elephant on a red square, elephant, zebra ⭐ x 7")
    assert said == "the vocabulary of 666 tokens has only pieces of these words: elephant, zebra"
    assert remarks(clip, "an elephant over Zürich") == ()


def test_an_empty_prompt_and_guidance_below_one(clip: Tokenizer) -> None:
    assert remarks(clip, " \n") == ("the prompt is empty, so that nothing says what the image should show",)
    none = Guidance("none", 0.5)
    assert remarks(clip, "a dog", guidance=none) == ("guidance 0.5 is used as 1, which is none",)
    for scale in (0, 1):
        assert remarks(clip, "a dog", guidance=Guidance("none", scale)) == ()
    assert remarks(clip, "a dog", guidance=Guidance("embedding", 0.5)) == ()


def test_an_unused_negative_prompt_is_not_read(clip: Tokenizer) -> None:
    unused = "the negative prompt is not used: "
    found = remarks(clip, "a dog", negative="BREAK", guidance=Guidance("none", 1))
    assert found == (f"{unused}guidance of 1 or less needs none",)
    found = remarks(clip, "a dog", negative="BREAK", guidance=Guidance("embedding", 8))
    assert found == (f"{unused}this U-Net has its guidance built in",)


def test_words_that_are_cut_are_named(clip: Tokenizer) -> None:
    assert remarks(clip, "the " * 75) == ()
    said = "a prompt has room for 75 tokens, and this was cut: dogs"
    assert remarks(clip, "the " * 75 + "dogs") == (said,)


SIGNS = st.text(st.sampled_from("ab:|()[]{}<>_+\\1. ANDBREAK\n"), max_size=60)


@settings(max_examples=150)
@given(SIGNS)
def test_any_prompt_gets_sentences_of_one_line_each_once(clip: Tokenizer, prompt: str) -> None:
    found = remarks(clip, prompt, "plain")
    assert len(set(found)) == len(found)
    assert all(sentence.strip() for sentence in found)


@pytest.mark.parametrize("sign", ["(", "[", "{", "_", "+", ":", "<lora:", "a+", "__a", "(a:", "embedding:"])
def test_long_prompts_are_looked_through_in_no_time(sign: str, clip: Tokenizer) -> None:
    prompt = (sign * 20_000)[:20_000]
    prompts = [tokenize(clip, "a"), tokenize(clip, "a")]
    started = time.thread_time()  # which other processes do not lengthen
    request_remarks(Request(prompt), WEIGHTED, clip, prompts)
    assert time.thread_time() - started < 2

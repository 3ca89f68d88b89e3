"""A calibration without data: prompts of the tokenizer's own words, the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from msd.bundle import open_bundle
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.calibration.random_words import PROMPTS, RANDOM_WORDS, WORDS, random_prompts
from msd.errors import BadCalibration
from msd.models.demo import CHECKPOINT
from msd.run.runtime.tokenizer import open_tokenizer

VOCABULARY = {
    "a": 0,
    "circle</w>": 1,
    "red</w>": 2,
    "1</w>": 3,
    "é</w>": 4,
    "</w>": 5,
    "over</w>": 6,
    "ov": 7,
}


def test_prompts_have_whole_words_only() -> None:
    prompts = random_prompts(VOCABULARY, seed=0)
    assert len(prompts) == PROMPTS
    assert {word for prompt in prompts for word in prompt.split()} == {"circle", "red", "over"}
    assert {len(prompt.split()) for prompt in prompts} <= set(range(WORDS[0], WORDS[1] + 1))


def test_a_seed_decides_the_prompts_and_the_order_of_the_vocabulary_does_not() -> None:
    backwards = dict(reversed(VOCABULARY.items()))
    assert random_prompts(VOCABULARY, seed=3) == random_prompts(backwards, seed=3)
    assert random_prompts(VOCABULARY, seed=3) != random_prompts(VOCABULARY, seed=4)


def test_the_demos_words_are_tokens_of_its_tokenizer() -> None:
    tokenizer = open_tokenizer(CHECKPOINT / "tokenizer")
    for prompt in random_prompts(tokenizer.vocabulary, seed=0):
        assert len(tokenizer.inner_ids(prompt)) == len(prompt.split())


def test_a_vocabulary_without_whole_words_is_refused() -> None:
    with pytest.raises(BadCalibration, match="no whole words for random-words; give a file of prompts"):
        random_prompts({"a": 0, "!</w>": 1}, seed=0)


def test_each_prompt_gives_the_inputs_of_an_image(bundle_folder: Path, tmp_path: Path) -> None:
    calibration = Calibration(Path(RANDOM_WORDS), steps=2, kept=1, guidance=1)
    runs = calibration.runs(open_bundle(bundle_folder), ("unet", "vae_decoder"), tmp_path)
    assert {name: len(each) for name, each in runs.items()} == {"unet": PROMPTS, "vae_decoder": PROMPTS}
    assert str(calibration) == "16 prompts of random words, 1 of 2 steps, guidance 1, seed 0"


def test_what_is_stored_of_them_tells_seeds_apart_and_needs_no_file() -> None:
    facts = [Calibration(Path(RANDOM_WORDS), seed=seed).facts() for seed in (0, 0, 1)]
    assert facts[0] == facts[1] != facts[2]
    assert facts[0] != Calibration(None, seed=0).facts()


def test_a_file_of_that_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Calibration(Path(RANDOM_WORDS)).is_random
    Path(RANDOM_WORDS).write_text("a red circle\n")
    assert not Calibration(Path(RANDOM_WORDS)).is_random

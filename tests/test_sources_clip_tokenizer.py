"""The tokenizer that comes with the package is CLIP's: transformers makes the same of the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, VOCABULARY, clip_tokenizer
from msd.run.runtime.tokenizer import open_tokenizer
from tests.late import transformers

PADS = {PAD_1: 49407, PAD_2: 0}
ASSIGNED = st.characters(exclude_categories=("Cs", "Cn"))
"""Letters that are newer than one of two libraries are cut differently."""

PIECES = [
    "a photo of an astronaut",
    "it's 1984!!",
    "<|endoftext|>",
    "naïve",
    "日本",
    "🙂‍↔️",
    "ﬁ",
    " \t\n",
    "!",
    "ΣΑΣ",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(ASSIGNED, max_size=12), max_size=8).map(" ".join)


@pytest.fixture(scope="module", params=PADS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, int]:
    """Our tokenizer, that of transformers, and the id that both should pad with."""
    folder = write(tmp_path_factory.mktemp("clip"), request.param)
    return open_tokenizer(folder), transformers.CLIPTokenizer.from_pretrained(folder), PADS[request.param]


def write(folder: Path, pad: str) -> Path:
    for name, read in clip_tokenizer(pad).items():
        (folder / name).write_bytes(read())
    return folder


def test_the_vocabulary_is_the_public_one() -> None:
    vocabulary = json.loads(clip_tokenizer(PAD_1)["vocab.json"]())
    assert len(vocabulary) == len(set(vocabulary.values())) == VOCABULARY
    known = {"!": 0, "!</w>": 256, "in": 512, "th": 513, "<|startoftext|>": 49406, "<|endoftext|>": 49407}
    assert {token: vocabulary[token] for token in known} == known


def test_a_prompt_has_the_public_ids(both: tuple[Any, Any, int]) -> None:
    ours, _, pad = both
    ids = ours.encode("a photo of an astronaut riding a horse on mars").tolist()
    assert ids[:12] == [49406, 320, 1125, 539, 550, 18376, 6765, 320, 4558, 525, 7496, 49407]
    assert ids[12:] == [pad] * 65


@settings(max_examples=300)
@given(text=TEXTS)
def test_transformers_makes_the_same_ids(text: str, both: tuple[Any, Any, int]) -> None:
    ours, reference, _ = both
    wanted = reference(text, padding="max_length", max_length=77, truncation=True)["input_ids"]
    assert ours.encode(text).tolist() == wanted

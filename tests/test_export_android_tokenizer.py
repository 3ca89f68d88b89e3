"""The tokenizer's files as a phone reads them: one token a line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from msd.bounds import MOST_IDS
from msd.errors import BadConfig
from msd.export.app.tokenizer_files import VOCABULARY, tokenizer_texts
from msd.run.runtime.tokenizer import Tokenizer, open_tokenizer
from tests.clip_files import write_tokenizer


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    write_tokenizer(tmp_path / "tokenizer", None)
    return open_tokenizer(tmp_path / "tokenizer")


def test_ids_without_a_token_are_empty_lines(tokenizer: Tokenizer) -> None:
    sparse = dataclasses.replace(tokenizer, vocabulary={"b": 3, "a": 0})
    assert tokenizer_texts(sparse)[VOCABULARY] == "a\n\n\nb\n"


def test_a_special_token_leaves_its_line_to_the_token_that_merges_make(tokenizer: Tokenizer) -> None:
    special = dataclasses.replace(tokenizer.specials[0], content="S")
    shared = dataclasses.replace(tokenizer, vocabulary={"S": 1, "a": 1, "b": 0}, specials=(special,))
    assert tokenizer_texts(shared)[VOCABULARY] == "b\na\n"


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({"a": 0, "b\n": 1}, r"has a token 'b\\n'; apps need tokens without line breaks"),
        ({"a": 0, "b\r": 1}, r"has a token 'b\\r'; apps need tokens without line breaks"),
        ({"": 0}, r"has a token ''; apps need tokens without line breaks"),
        ({"a": 0, "b": 0}, "'a' and 'b' have the same id 0; apps need one token for each"),
        ({"a": MOST_IDS}, f"has the id {MOST_IDS}; ids should be from 0 to {MOST_IDS - 1}"),
        ({"a": -1, "b": 2}, "has the id 2; ids should be from 0"),
    ],
)
def test_refuses_tokens_that_have_no_line_of_their_own(
    vocabulary: dict[str, int], message: str, tokenizer: Tokenizer
) -> None:
    with pytest.raises(BadConfig, match=message):
        tokenizer_texts(dataclasses.replace(tokenizer, vocabulary=vocabulary))

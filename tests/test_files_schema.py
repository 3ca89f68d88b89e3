"""Dataclasses from JSON: what fits comes back equal, what does not is named."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.files import schema


@dataclass(frozen=True)
class Inner:
    size: int
    share: float


@dataclass(frozen=True)
class Outer:
    name: str
    sure: bool
    parts: tuple[Inner, ...]
    table: dict[str, Inner]
    free: dict[str, Any]
    maybe: str | None = None
    words: tuple[str, ...] = field(default_factory=tuple)
    mood: Literal["good", "bad"] = "good"


INNER = st.builds(Inner, st.integers(), st.floats(allow_nan=False))
FREE = st.dictionaries(st.text(), st.recursive(st.integers() | st.text(), st.lists, max_leaves=3))
OUTER = st.builds(
    Outer,
    st.text(),
    st.booleans(),
    st.lists(INNER).map(tuple),
    st.dictionaries(st.text(), INNER),
    FREE,
    st.none() | st.text(),
    st.lists(st.text()).map(tuple),
)
GOOD: dict[str, Any] = {
    "name": "n", "sure": True, "parts": [{"size": 1, "share": 2}], "table": {"a": {"size": 1, "share": 0.5}},
    "free": {"x": [1, None]},
}  # fmt: skip


@given(value=OUTER)
def test_what_is_written_is_read_again(value: Outer) -> None:
    text = json.dumps(dataclasses.asdict(value))
    assert schema.read(Outer, json.loads(text), "file") == value


def test_what_may_be_missing_has_its_default_and_what_is_unknown_is_ignored() -> None:
    value = schema.read(Outer, GOOD | {"later": 1}, "file")
    assert (value.maybe, value.words, value.parts[0].share) == (None, (), 2.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 3}, "file.name is 3, not of type string"),
        ({"sure": 1}, "file.sure is 1, not of type boolean"),
        ({"parts": {}}, "file.parts is dict, not a list"),
        ({"parts": [{"size": 1, "share": 2}, {"size": 1.5, "share": 2}]}, r"file.parts\[1\].size is 1.5"),
        ({"parts": [{"size": True, "share": 2}]}, r"file.parts\[0\].size is True, not of type integer"),
        ({"table": {"a": {"size": 1}}}, "file.table.a lacks 'share'"),
        ({"free": []}, "file.free is list, not an object"),
        ({"maybe": 4}, "file.maybe is 4"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        schema.read(Outer, GOOD | change, "file")


def test_something_else_altogether_is_no_object() -> None:
    with pytest.raises(ValueError, match="file is list, not an object"):
        schema.read(Outer, [], "file")


def test_the_json_schema_says_the_same() -> None:
    inner = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "share": {"type": "number"}},
        "required": ["size", "share"],
    }
    described = schema.describe(Outer)
    assert described["required"] == ["name", "sure", "parts", "table", "free"]
    assert described["properties"]["parts"] == {"type": "array", "items": inner}
    assert described["properties"]["table"] == {"type": "object", "additionalProperties": inner}
    assert described["properties"]["free"] == {"type": "object", "additionalProperties": {}}
    assert described["properties"]["maybe"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_words_are_those_that_are_known() -> None:
    value = {"name": "", "sure": True, "parts": [], "table": {}, "free": {}, "mood": "bad"}
    assert schema.read(Outer, value, "file").mood == "bad"
    with pytest.raises(ValueError, match=r"file\.mood is 'worse', not one of 'good', 'bad'"):
        schema.read(Outer, {**value, "mood": "worse"}, "file")
    assert schema.describe(Outer)["properties"]["mood"] == {"enum": ["good", "bad"]}


def test_numbers_that_json_lacks_are_others() -> None:
    def never(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    found = json.loads(json.dumps(schema.to_json([math.inf, -math.inf, math.nan, 1.5])), parse_constant=never)
    assert found == [sys.float_info.max, -sys.float_info.max, None, 1.5]

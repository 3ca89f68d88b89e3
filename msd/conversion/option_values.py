"""The values that an option may have: a test, words for a sentence, and bounds for a command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import Repr
from typing import Any, Literal

from msd.bounds import is_number, is_whole
from msd.files.names import can_be_path
from msd.files.wording import listed

WORDS = Repr()
WORDS.maxstring = WORDS.maxother = 300
Kind = Literal["whole", "number", "choice", "text", "path", "flag", "list"]


def in_words(value: Any) -> str:
    """Return a value as a sentence shows it, the middle of a long one left out.

    One whose words are those of a plain value, as NumPy's are, has its type beside them.
    """
    words, kind = WORDS.repr(value), type(value)
    is_told = kind.__module__ == "builtins" or kind.__name__ in words
    return words if is_told else f"{words} ({kind.__module__}.{kind.__qualname__})"


def _as_given(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class OptionValue:
    """The values of one kind: a test, words for a sentence, and bounds or choices where there are any.

    `read` returns what a conversion takes for such a value: paths where texts may stand for them.
    """

    kind: Kind
    holds: Callable[[Any], bool]
    words: str
    bounds: tuple[float, float] = (0, 0)
    choices: tuple[str, ...] = ()
    read: Callable[[Any], Any] = _as_given


def whole_number(least: int, most: int) -> OptionValue:
    """Return the whole numbers from `least` to `most`."""
    words = f"a whole number from {least} to {most}"
    return OptionValue("whole", lambda v: is_whole(v) and least <= v <= most, words, (least, most), read=int)


def number(least: float, most: float) -> OptionValue:
    """Return the numbers from `least` to `most`."""
    words = f"a number from {least:g} to {most:g}"
    return OptionValue(
        "number", lambda v: is_number(v) and least <= v <= most, words, (least, most), read=float
    )


def one_of(*values: str) -> OptionValue:
    """Return those texts."""
    return OptionValue("choice", lambda v: v in values, listed(map(repr, values), "or"), choices=values)


def all_are(is_one: Callable[[Any], bool], words: str) -> OptionValue:
    """Return lists of such items."""
    return OptionValue(
        "list", lambda v: isinstance(v, list | tuple) and all(map(is_one, v)), f"a list of {words}"
    )


def scaled_files(words: str) -> OptionValue:
    """Return lists of pairs of a file and a number."""
    return _pairs(is_number, words, float)


def named_files(words: str) -> OptionValue:
    """Return lists of pairs of a file and a text or None."""
    return _pairs(lambda v: v is None or isinstance(v, str), words, _as_given)


def _pairs(is_second: Callable[[Any], bool], words: str, second: Callable[[Any], Any]) -> OptionValue:

    def is_pair(each: Any) -> bool:
        return isinstance(each, tuple) and len(each) == 2 and can_be_path(each[0])

    def holds(value: Any) -> bool:
        return isinstance(value, list | tuple) and all(is_pair(each) and is_second(each[1]) for each in value)

    def read(value: Any) -> Any:
        return tuple((Path(file), second(more)) for file, more in value)

    return OptionValue("list", holds, f"a list of pairs, a file and {words}", read=read)


def or_none(value: OptionValue) -> OptionValue:
    """Return the same values, and None."""
    return replace(
        value,
        holds=lambda v: v is None or value.holds(v),
        words=f"{value.words}, or None",
        read=lambda v: None if v is None else value.read(v),
    )


TEXT = OptionValue("text", lambda v: isinstance(v, str), "a text")
PATH = OptionValue("path", can_be_path, "a path", read=Path)
PATHS = replace(all_are(can_be_path, "paths"), read=lambda v: tuple(map(Path, v)))
NAME_OR_FILE = OptionValue("text", can_be_path, "a name or a path")
FLAG = OptionValue("flag", lambda v: isinstance(v, bool), "True or False")
NAMES = all_are(lambda v: isinstance(v, str), "names")

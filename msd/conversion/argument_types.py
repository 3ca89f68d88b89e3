"""The types of a function's arguments, as its annotations state them, in words for a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msd.bounds import is_number, is_whole
from msd.bundle import Bundle, ImageSize
from msd.conversion.option_values import in_words
from msd.errors import BadConfig
from msd.files.names import can_be_path
from msd.files.wording import listed

Test = Callable[[Any], bool]


def _is(*kinds: type) -> Test:
    return lambda value: isinstance(value, kinds)


def _texts(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is(str), value))


TEXT, FUNCTION = (_is(str), "a text"), (callable, "a function")
KINDS: Mapping[str, tuple[Test, str]] = {
    "str | Path": (can_be_path, "a path"),
    "str": TEXT,
    "int": (is_whole, "a whole number"),
    "float": (is_number, "a number"),
    "bool": (_is(bool), "True or False"),
    "Bundle": (_is(Bundle), "a bundle"),
    "ImageSize": (_is(ImageSize), "an ImageSize"),
    "Sequence[str]": (_texts, "a list of texts"),
    "Mapping[str, Array]": (_is(Mapping), "a dictionary of arrays"),
    **dict.fromkeys(("PromptSyntax", "Fit", "Precision", "GpuApi"), TEXT),
    **dict.fromkeys(("OnStep", "OnProgress"), FUNCTION),
    "None": (lambda value: value is None, "None"),
}
"""A test of a value and words for it, by what stands in an annotation; which text it is, is checked later."""


def types_of(function: Callable[..., Any]) -> dict[str, list[tuple[Test, str]]]:
    """Return the types of each argument but `**`; raises KeyError for an annotation that is not known."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: [*_types(each.annotation)] for each in parameters if each.kind is not each.VAR_KEYWORD}


def require_types(types: Mapping[str, Sequence[tuple[Test, str]]], given: Mapping[str, Any]) -> None:
    """Raise BadConfig, naming the argument, for a value of another type than these."""
    for name, value in given.items():
        if name in types and not any(holds(value) for holds, _ in types[name]):
            words = listed((words for _, words in types[name]), "or")
            raise BadConfig(f"{name} is {in_words(value)}; {words} was expected")


def _types(annotation: str) -> Iterator[tuple[Test, str]]:
    rest = annotation
    while rest:
        kind = next((kind for kind in KINDS if rest == kind or rest.startswith(f"{kind} | ")), None)
        if kind is None:
            raise KeyError(f"{annotation}: {rest} is not among {', '.join(KINDS)}")
        yield KINDS[kind]
        rest = rest.removeprefix(kind).removeprefix(" | ")

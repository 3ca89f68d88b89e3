"""Functions that say what is wrong with a call: an argument that they lack, or a value of another type."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

from msd.conversion.argument_types import require_types, types_of

P = ParamSpec("P")
R = TypeVar("R")


def known_keywords(options: Collection[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the function raises TypeError, with the nearest name, for an unknown keyword.

    It raises BadConfig for a value of another type than its annotations say. `options` are the names that its
    `**` argument takes.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        types = types_of(function)
        names = [*types, *options]

        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            for name in keywords:
                if name not in names:
                    raise TypeError(f"{function.__name__}() has no argument {name!r}; {_hint(name, names)}")
            require_types(types, {**dict(zip(types, args, strict=False)), **keywords})
            return function(*args, **keywords)

        return call

    return decorate


def _hint(name: str, names: Collection[str]) -> str:
    """Return the nearest of the names, or all of them where none is near."""
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names)}"

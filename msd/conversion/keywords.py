"""Functions that name the nearest argument where a call has one that they lack."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def known_keywords(options: Collection[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the function raises TypeError, with the nearest name, for an unknown keyword.

    `options` are the names that its `**` argument takes.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        names = [*known, *options]

        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            for name in keywords:
                if name not in names:
                    raise TypeError(f"{function.__name__}() has no argument {name!r}; {_hint(name, names)}")
            return function(*args, **keywords)

        return call

    return decorate


def _hint(name: str, names: Collection[str]) -> str:
    """Return the nearest of the names, or all of them where none is near."""
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names)}"

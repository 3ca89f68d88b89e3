"""Numbers of things, and lists of them, in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things: "1 step", "2 steps", "0 steps"; `many` is an irregular plural."""
    return f"{count} {plural(count, one, many)}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return the name of so many things: "step" for 1, else "steps" or `many`."""
    return one if count == 1 else many or f"{one}s"


def listed(things: Iterable[object], last: str = "and") -> str:
    """Return things in a row: "a", "a and b", "a, b and c", with another `last` word; "" for none."""
    *others, end = [*map(str, things)] or [""]
    return f"{', '.join(others)} {last} {end}" if others else end

"""What opening a program is made of, by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Phase:
    """A part of the work: when it began, by `perf_counter`, and the seconds that it was worked on in all.

    Parts whose work takes turns, or goes on side by side, overlap.
    """

    name: str
    begin: float
    seconds: float


class Phases:
    """A clock for each part of the work, in the order in which they began."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the time of the `with` block to a part's."""
        start = perf_counter()
        try:
            yield
        finally:
            self.add(name, start, perf_counter())

    def add(self, name: str, begin: float, end: float) -> None:
        """Add the time from `begin` to `end` to a part's."""
        self._begun.setdefault(name, begin)
        self._seconds[name] = self._seconds.get(name, 0.0) + end - begin

    @property
    def all(self) -> tuple[Phase, ...]:
        """The parts until now."""
        return tuple(Phase(name, begin, self._seconds[name]) for name, begin in self._begun.items())

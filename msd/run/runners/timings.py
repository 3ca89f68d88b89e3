"""Timed runs of one network: their number, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

MOST = 1000
"""The most runs, however short they are."""

Run = Callable[[], float]
"""Runs something once and returns the seconds it took."""


@dataclass(frozen=True)
class Effort:
    """The number of runs, by the rules of TensorFlow Lite's benchmark_model for its flags of these names.

    There are at least `repeats` runs that take at least `min_seconds`, but none starts after `max_seconds`.
    The first run and `warmups` more come before them and do not count.
    """

    repeats: int = 20
    warmups: int = 2
    min_seconds: float = 1.0
    max_seconds: float = 30.0


@dataclass(frozen=True)
class Timings:
    """Seconds of loading (`init`), of the first run, and of the `count` runs that count.

    `runs` has the seconds of each, where they are known.
    """

    init: float
    first: float
    count: int
    median: float | None
    p90: float | None
    mean: float
    least: float
    most: float
    warmups: tuple[float, ...] = ()
    runs: tuple[float, ...] = ()

    @property
    def typical(self) -> float:
        """The median, or the mean where only that is known."""
        return self.mean if self.median is None else self.median


def summarise(init: float, first: float, warmups: Sequence[float], runs: Sequence[float]) -> Timings:
    """Return the timings of at least one of `runs`; percentiles are interpolated linearly."""
    median, p90 = (float(np.percentile(runs, part)) for part in (50, 90))
    return Timings(
        init=init,
        first=first,
        count=len(runs),
        median=median,
        p90=p90,
        mean=float(np.mean(runs)),
        least=min(runs),
        most=max(runs),
        warmups=tuple(warmups),
        runs=tuple(runs),
    )


def interleaved(
    runs: Sequence[Run], effort: Effort, on_turn: Callable[[int, float], None]
) -> list[list[float]]:
    """Call `runs` in turn, in alternating order, and return the seconds of every call for each of them.

    A temporary slowdown of the machine then affects all of them. After each turn, `on_turn` is called with
    the number of turns and the seconds of one run.
    """
    durations: list[list[float]] = [[] for _ in runs]
    while not _enough(durations, effort):
        turn = range(len(runs)) if len(durations[0]) % 2 == 0 else reversed(range(len(runs)))
        for i in turn:
            durations[i].append(runs[i]())
        on_turn(len(durations[0]), durations[0][-1])
    return durations


def _enough(durations: Sequence[Sequence[float]], effort: Effort) -> bool:
    count, seconds = len(durations[0]), sum(map(sum, durations)) / len(durations)
    done = count >= effort.repeats and seconds >= effort.min_seconds
    return done or count >= MOST or (count > 0 and seconds >= effort.max_seconds)

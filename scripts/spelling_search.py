"""The search for a spelling: every form alone, those that help together, then pairs of what is left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from msd.rewrite.spelling import FORMS, Spelling

NEAR = 1.01
"""A form whose ratio alone is below this may help beside another."""


@dataclass(frozen=True)
class SpellingTrial:
    """A spelling's cost over that of `against`, measured in turn; None, and why, if it can't be run.

    `decibels` is the distance of its outputs from the standard spelling's.
    """

    spelling: Spelling
    against: Spelling
    ratio: float | None
    costs: tuple[float, float] | None = None
    decibels: float | None = None
    failure: str | None = None

    @property
    def change(self) -> dict[str, str]:
        """The forms that differ from those of `against`."""
        return {
            construct: self.spelling[construct]
            for construct in FORMS
            if self.spelling[construct] != self.against[construct]
        }


Compare = Callable[[Spelling, Spelling], SpellingTrial]
"""Compares a spelling, the first, with another in turn."""


@dataclass(frozen=True)
class FoundSpelling:
    """The best spelling, and every comparison in order."""

    best: Spelling
    tried: tuple[SpellingTrial, ...]


def search(compare: Compare, keep: float, constructs: Collection[str] = tuple(FORMS)) -> FoundSpelling:
    """Return the best spelling of some constructs; a change stays if its ratio is below `keep`.

    Every form that is not standard is compared with the standard one. Then each that may help is put beside
    the best so far, the most helpful first, and so is each pair of those that were not kept.
    """
    start = Spelling()
    forms = [(construct, form) for construct in constructs for form in FORMS[construct][1:]]
    alone = [compare(start.with_form(*form), start) for form in forms]
    hopeful = sorted((c for c in alone if c.ratio is not None and c.ratio < NEAR), key=lambda c: c.ratio or 0)
    best, tried, known = start, [*alone], {c.spelling: c for c in alone}
    for changes in _changes([c.change for c in hopeful]):
        spelling = best
        for construct, form in changes.items():
            spelling = spelling.with_form(construct, form)
        if spelling.forms == best.forms or any(best[c] != start[c] for c in changes):
            continue
        again = known.get(spelling) if best == start else None
        comparison = again or compare(spelling, best)
        tried += [] if again else [comparison]
        if comparison.ratio is not None and comparison.ratio < keep:
            best = spelling
    return FoundSpelling(best, tuple(tried))


def _changes(hopeful: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Yield each change, then each pair of changes of two constructs."""
    yield from hopeful
    for one, other in itertools.combinations(hopeful, 2):
        if one.keys() != other.keys():
            yield {**one, **other}

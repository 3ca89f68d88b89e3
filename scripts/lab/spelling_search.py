"""The search for a spelling: every form alone, those that help together, then pairs of what is left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from msd.graph.rewrite.spelling import FORMS, Spelling

EVERY = tuple((construct, form) for construct, forms in FORMS.items() for form in forms[1:])
"""Every form that is not standard, with its construct."""

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


Prepare = Callable[[Sequence[Spelling]], None]
"""Makes spellings ready that are likely to be compared next."""


class Search:
    """A search for the best spelling of some constructs; a change stays if its ratio is below `keep`."""

    def __init__(
        self,
        compare: Compare,
        keep: float,
        prepare: Prepare = lambda spellings: None,
        report: Callable[[SpellingTrial], None] = lambda trial: None,
    ) -> None:
        self.compare, self.keep, self.prepare, self.report = compare, keep, prepare, report
        self.best = Spelling()
        self.tried: list[SpellingTrial] = []

    def run(self, forms: Collection[tuple[str, str]] = EVERY) -> Spelling:
        """Return the best spelling; `tried` then has every comparison in order.

        Each of `forms` is compared with the standard one of its construct. Then each that may help is put
        beside the best so far, the most helpful first, and so is each pair of those that were not kept.
        """
        alone = [Spelling().with_forms({construct: form}) for construct, form in forms]
        self.prepare([Spelling(), *alone])
        trials = [self.trial(spelling) for spelling in alone]
        near = [trial for trial in trials if trial.ratio is not None and trial.ratio < NEAR]
        changes = [trial.change for trial in sorted(near, key=lambda trial: trial.ratio or 0)]
        self.add_in_turn(changes)
        pairs = [{**a, **b} for a, b in itertools.combinations(changes, 2) if a.keys() != b.keys()]
        for pair in pairs:
            self.add(pair)
        return self.best

    def add_in_turn(self, changes: list[dict[str, str]]) -> None:
        """Keep each change that helps; all are expected to, and the rest prepared anew if one doesn't."""
        expected: list[Spelling] = []
        for place, change in enumerate(changes):
            if self.best.with_forms(change) not in expected:
                expected = self.expected(changes[place:])
                self.prepare(expected)
            self.add(change)

    def expected(self, changes: list[dict[str, str]]) -> list[Spelling]:
        """Return the spellings that are compared with the best if all of these changes are kept."""
        spellings, best = [], self.best
        for change in changes:
            if is_open(change, best):
                best = best.with_forms(change)
                spellings.append(best)
        return spellings

    def add(self, change: dict[str, str]) -> None:
        """Compare the best with a change to the best without; keep it if it helps."""
        if is_open(change, self.best):
            trial = self.trial(self.best.with_forms(change))
            if trial.ratio is not None and trial.ratio < self.keep:
                self.best = trial.spelling

    def trial(self, spelling: Spelling) -> SpellingTrial:
        """Return the comparison of a spelling with the best, which is not made twice."""
        for trial in self.tried:
            if (trial.spelling, trial.against) == (spelling, self.best):
                return trial
        self.tried.append(self.compare(spelling, self.best))
        self.report(self.tried[-1])
        return self.tried[-1]


def is_open(change: dict[str, str], spelling: Spelling) -> bool:
    """Tell whether the constructs of a change are still standard in a spelling."""
    return all(spelling[construct] == FORMS[construct][0] for construct in change)

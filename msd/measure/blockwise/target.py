"""The target of a mixed recipe, and the aim that reaches it: neither bytes nor errors add up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msd.measure.blockwise.choice import Choice
from msd.measure.blockwise.result import finite
from msd.measure.blockwise.sensitivity import Outcome, Study, for_size, for_snr, raised_aims
from msd.measure.limits import rounded_apart


@dataclass(frozen=True)
class Snr:
    """A target of `db` or more for each component's result; `aims` are the dB to aim at, by component."""

    db: float
    aims: Mapping[str, float]

    def choice(self, study: Study) -> Choice:
        """Return the smallest choice that should reach the aims."""
        return for_snr(study, self.aims)

    def closer(
        self, study: Study, expected: Mapping[str, Outcome], given: Mapping[str, Outcome]
    ) -> Snr | None:
        """Return a closer aim after a recipe whose outcome was `given`; None where that is good."""
        aims = raised_aims(self.aims, self.db, expected, given)
        return replace(self, aims=aims) if aims else None

    def missed(self, given: Mapping[str, Outcome]) -> str:
        """Return a sentence where an outcome misses the target, else nothing."""
        low = {name: ratio for name, outcome in given.items() if (ratio := finite(outcome.snr_db)) < self.db}
        said = ", ".join(f"{name} has {rounded_apart(ratio, self.db, 1)} dB" for name, ratio in low.items())
        return f"the target of {self} is missed: {said}" if low else ""

    def __str__(self) -> str:
        return f"{self.db:g} dB"


@dataclass(frozen=True)
class SizeTarget:
    """A target of at most `bytes` for all files; the reference's have `whole`, and `aim` is the next aim."""

    bytes: int
    whole: int
    aim: int

    def choice(self, study: Study) -> Choice:
        """Return the best choice of the size aimed at; raises BadConfig for a size that is too small."""
        return for_size(study, self.aim)

    def closer(
        self, study: Study, expected: Mapping[str, Outcome], given: Mapping[str, Outcome]
    ) -> SizeTarget | None:
        """Return a closer aim after a recipe whose outcome was `given`; None where that is good or minimal.

        Projections merged across blocks are stored in the largest format of these blocks: the aim is by the
        bytes in excess below those that were `expected` of the recipe, which may be fewer than were aimed at.
        """
        over = _bytes(given) - self.bytes
        if over <= 0 or _bytes(expected) <= study.least:
            return None
        return replace(self, aim=max(study.least, _bytes(expected) - over))

    def missed(self, given: Mapping[str, Outcome]) -> str:
        """Return a sentence where an outcome misses the target, else nothing."""
        size = _bytes(given)
        if size <= self.bytes:
            return ""
        digits = next(n for n in range(2, 7) if f"{size / 1e6:.{n}f}" != f"{self.bytes / 1e6:.{n}f}")
        taken = f"{size / 1e6:.{digits}f} MB"
        return f"the target of {self._words(digits)}, is missed: the files take {taken}"

    def __str__(self) -> str:
        return self._words(2)

    def _words(self, digits: int) -> str:
        return f"{self.bytes / 1e6:.{digits}f} MB, {self.bytes / self.whole:.0%} of float32"


def _bytes(outcomes: Mapping[str, Outcome]) -> int:
    return sum(outcome.bytes for outcome in outcomes.values())

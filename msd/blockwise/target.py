"""What a mixed recipe is to reach, and what is aimed at for that: neither bytes nor errors add up quite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msd.blockwise.choice import Choice
from msd.blockwise.sensitivity import Outcome, Study, for_size, for_snr, raised


@dataclass(frozen=True)
class Snr:
    """Each component's result has `db` or more; `aims` are what is aimed at, by component."""

    db: float
    aims: Mapping[str, float]

    def choice(self, found: Study) -> Choice:
        """Return the smallest choice that should do."""
        return for_snr(found, self.aims)

    def closer(self, found: Study, given: Mapping[str, Outcome]) -> Snr | None:
        """Return what to aim at after a recipe that gave `given`; None where that is good."""
        aims = raised(self.aims, self.db, given)
        return replace(self, aims=aims) if aims else None

    def __str__(self) -> str:
        return f"{self.db:g} dB"


@dataclass(frozen=True)
class Size:
    """The files together have at most `bytes`, those of the reference have `whole`; `aim` is aimed at."""

    bytes: int
    whole: int
    aim: int

    def choice(self, found: Study) -> Choice:
        """Return the best choice that should do; raises BadConfig for a size too small."""
        return for_size(found, self.aim)

    def closer(self, found: Study, given: Mapping[str, Outcome]) -> Size | None:
        """Return what to aim at after a recipe that gave `given`; None where that is good or the least.

        Projections merged across blocks are stored as the largest form of these: what was too much is taken
        off the aim.
        """
        over = sum(outcome.bytes for outcome in given.values()) - self.bytes
        if over <= 0 or self.aim <= found.least:
            return None
        return replace(self, aim=max(found.least, self.aim - over))

    def __str__(self) -> str:
        return f"{self.bytes / 1e6:.2f} MB, {self.bytes / self.whole:.0%} of float32"

"""What pruning did, unit by unit, and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Pruned:
    """A unit that lost something.

    `width` and `kept` count channels, hidden units or heads; `groups` each lost as many, unless
    `whole_groups` went. `error` is what the criterion says is lost. With a calibration `output_error` is the
    squared error of what the next layer makes, relative to what it made (0.01: 20 dB), and `refitted_error`
    the same with its weights refitted.
    """

    component: str
    unit: str
    kind: str
    groups: int
    width: int
    kept: int
    whole_groups: bool
    parameters: int
    error: float
    output_error: float | None = None
    refitted_error: float | None = None


@dataclass(frozen=True)
class Report:
    """What pruning did: by which criterion, for which budget, to how many parameters of which components."""

    criterion: str
    budget: str | None
    parameters: dict[str, int]
    units: tuple[Pruned, ...] = ()
    found: int = 0

    @property
    def removed(self) -> int:
        """How many parameters went."""
        return sum(unit.parameters for unit in self.units)

    @property
    def share(self) -> float:
        """What share of the parameters went."""
        return self.removed / sum(self.parameters.values())

    def of(self, component: str) -> dict[str, Any]:
        """Return what was done to one component, as JSON."""
        units = [asdict(unit) for unit in self.units if unit.component == component]
        return {
            "criterion": self.criterion,
            "budget": self.budget,
            "parameters": self.parameters[component],
            "removed": sum(unit["parameters"] for unit in units),
            "units": units,
        }

    def to_json(self) -> dict[str, Any]:
        """Return all of it, as JSON."""
        return {**asdict(self), "removed": self.removed}

"""The result of pruning, unit by unit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Pruned:
    """A unit that was cut.

    `width` and `kept` count channels, hidden units or heads; Each of `groups` lost the same number, unless
    `whole_groups` were removed. `error` is the loss by the criterion. With a calibration, `output_error` is
    the squared error of the next layer's output, relative to the output before (0.01: 20 dB), and
    `refitted_error` the same with its weights refitted.
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
class PruningReport:
    """The result of pruning by a criterion, for a budget; `parameters` are those before, by component."""

    criterion: str
    budget: str | None
    parameters: dict[str, int]
    units: tuple[Pruned, ...] = ()
    found: int = 0

    @property
    def removed(self) -> int:
        """How many parameters were removed."""
        return sum(unit.parameters for unit in self.units)

    @property
    def share(self) -> float:
        """The share of the parameters that was removed."""
        return self.removed / sum(self.parameters.values())

    def of(self, component: str) -> dict[str, Any]:
        """Return the part about one component, as JSON."""
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

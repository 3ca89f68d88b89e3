"""The result of pruning, unit by unit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from msd.graph.ledger import ComponentPruning, PrunedUnit


@dataclass(frozen=True)
class PruningReport:
    """The result of pruning by a criterion, for a budget; `parameters` are those before, by component."""

    criterion: str
    budget: str | None
    parameters: dict[str, int]
    units: tuple[PrunedUnit, ...] = ()
    found: int = 0

    @property
    def removed(self) -> int:
        """How many parameters were removed."""
        return sum(unit.parameters for unit in self.units)

    @property
    def share(self) -> float:
        """The share of the parameters that was removed."""
        return self.removed / sum(self.parameters.values())

    def of(self, component: str) -> ComponentPruning | None:
        """Return the part about one component, None where it was not to be pruned."""
        if component not in self.parameters:
            return None
        units = tuple(unit for unit in self.units if unit.component == component)
        return ComponentPruning(
            criterion=self.criterion,
            budget=self.budget,
            parameters=self.parameters[component],
            removed=sum(unit.parameters for unit in units),
            units=units,
        )

    def to_json(self) -> dict[str, Any]:
        """Return all of it, as JSON."""
        return {**asdict(self), "removed": self.removed}

"""Prune graphs: find the units, score them, choose cuts, remove them and refit the layers that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from msd.compress.pruning.alike import prune_alike
from msd.compress.pruning.budget import Candidate, Choice, allocate, by_shares
from msd.compress.pruning.channels import Seed
from msd.compress.pruning.criteria import Scores, magnitude
from msd.compress.pruning.observations import Observed, scores
from msd.compress.pruning.refit import refit, refit_blocks
from msd.compress.pruning.removal import Cut, remove
from msd.compress.pruning.report import PruningReport
from msd.compress.pruning.settings import Budget, Pruning
from msd.compress.pruning.units import Unit, find_units
from msd.errors import BadConfig
from msd.files.wording import listed
from msd.graph.ir import Graph, Tensor
from msd.graph.ledger import PrunedUnit

BytesOf = Callable[[str, Tensor], float]
"""Returns about how many bytes a learned constant of a component will take in the file."""


def prune(
    graphs: Mapping[str, Graph],
    pruning: Pruning,
    bytes_of: BytesOf,
    calibration: Observed | None = None,
    other_sizes: Mapping[str, Sequence[Graph]] = MappingProxyType({}),
) -> PruningReport:
    """Prune `graphs`, by component, as `pruning` asks, and return a report.

    `other_sizes` are graphs of the same components for other image sizes, which lose the same and get the
    same weights. Weights stay unread; refitted ones are in files of the calibration's folder. Raises
    BadConfig, with the nearest possible value, for an impossible budget or share.
    """
    if calibration is None and pruning.needs_calibration:
        wants = "refitting" if pruning.refit else f"the criterion {pruning.criterion!r}"
        raise BadConfig(f"{wants} needs a calibration: give --calibration PROMPTS.txt or a folder of inputs")
    for graph in graphs.values():
        graph.remove_dead()
    plan = _Plan(graphs, pruning, bytes_of, calibration)
    done: list[PrunedUnit] = []
    for name, cuts in plan.cuts().items():
        done += _remove(name, graphs[name], cuts, pruning, calibration)
        for graph in other_sizes.get(name, ()):
            prune_alike(graph, graphs[name], cuts)
    budget = str(pruning.budget) if pruning.budget else None
    return PruningReport(pruning.criterion, budget, plan.parameters, tuple(done))


def chosen_cuts(graphs: Mapping[str, Graph], pruning: Pruning, bytes_of: BytesOf) -> dict[str, list[Cut]]:
    """Return the cuts by component that `prune` would make without a calibration; no graph changes.

    Raises BadConfig as it does.
    """
    return _Plan(graphs, pruning, bytes_of, None).cuts()


def require_possible(graphs: Mapping[str, Graph], pruning: Pruning, bytes_of: BytesOf) -> None:
    """Raise BadConfig as `prune` does for an impossible budget or share, without reading a weight."""
    for graph in graphs.values():
        graph.remove_dead()
    _Plan(graphs, pruning, bytes_of, None).require_possible()


def _remove(
    name: str, graph: Graph, cuts: Sequence[Cut], pruning: Pruning, calibration: Observed | None
) -> list[PrunedUnit]:
    """Remove the cuts from one component, refit if asked to, and return a record of each unit."""
    done = [_pruned(name, cut) for cut in cuts]
    blocks = refit_blocks(graph, cuts)
    for cut in cuts:
        remove(graph, cut.seed, cut.kept)
    if calibration is None or not cuts:
        return done
    errors = refit(calibration, name, blocks, pruning.refit is not False)
    return [
        replace(unit, output_error=before, refitted_error=after)
        for unit, (before, after) in zip(done, errors, strict=True)
    ]


def _pruned(component: str, cut: Cut) -> PrunedUnit:
    unit, share = cut.unit, cut.kept.shape[1] / cut.seed.count
    kept, gone = round(unit.width * share), round(unit.count * (1 - share) * unit.parameters)
    whole = cut.seed is not unit.seed
    return PrunedUnit(
        component=component,
        unit=unit.name,
        kind=unit.kind,
        groups=unit.groups,
        width=unit.width,
        kept=kept,
        whole_groups=whole,
        parameters=gone,
        error=round(cut.error, 6),
    )


class _Plan:
    """The choice of cuts in each component."""

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        pruning: Pruning,
        bytes_of: BytesOf,
        calibration: Observed | None,
    ) -> None:
        self.graphs, self.pruning, self.bytes_of, self.calibration = graphs, pruning, bytes_of, calibration
        self.units = {name: find_units(graph).units for name, graph in graphs.items()}
        self.place = {unit: name for name, units in self.units.items() for unit in units}
        self.parameters = {name: round(_total(graph, lambda t: 1)) for name, graph in graphs.items()}

    def require_possible(self) -> None:
        """Raise BadConfig for a budget or a share that is impossible."""
        chosen = by_shares(list(self.place), self.pruning.shares)
        if budget := self.pruning.budget:
            self.left(budget, chosen, self.others(chosen))

    def others(self, chosen: Mapping[Unit, Choice]) -> list[Unit]:
        """Return the units that a budget may cut beside those `chosen`."""
        return [unit for unit in self.place if unit not in chosen and unit.places > 1]

    def cuts(self) -> dict[str, list[Cut]]:
        """Return the cuts by component: those of single units, then those that the budget still needs."""
        chosen = by_shares(list(self.place), self.pruning.shares)
        known = self.scores({unit: choice.seed for unit, choice in chosen.items()})
        if budget := self.pruning.budget:
            others = self.others(chosen)
            known |= self.scores({unit: unit.seed for unit in others})
            chosen |= self.spent(budget, chosen, [self.candidate(unit, known[unit]) for unit in others])
        cuts: dict[str, list[Cut]] = {name: [] for name in self.graphs}
        for unit, choice in chosen.items():
            if choice.share < 1:
                kept, error = known[unit].kept(choice.count), known[unit].error(choice.count)
                cuts[self.place[unit]].append(Cut(unit, choice.seed, kept, error))
        return cuts

    def scores(self, seeds: Mapping[Unit, Seed]) -> dict[Unit, Scores]:
        """Return the scores of units, entered at `seeds`."""
        results: dict[Unit, Scores] = {}
        for name, graph in self.graphs.items():
            mine = [unit for unit in seeds if self.place[unit] == name]
            if self.calibration is None or self.pruning.criterion == "magnitude":
                results |= {unit: magnitude(graph, seeds[unit]) for unit in mine}
            elif mine:
                wanted = [seeds[unit] for unit in mine]
                values = scores(self.calibration, name, graph, wanted, self.pruning.criterion)
                results |= dict(zip(mine, values, strict=True))
        return results

    def candidate(self, unit: Unit, known: Scores) -> Candidate:
        """Return a unit as the budget sees it."""
        return Candidate(unit, self.each(unit), {n: known.error(n) for n in unit.kept_counts()})

    def each(self, unit: Unit) -> float:
        """Return the worth of one index of every group of `unit`, in the budget's parameters or bytes."""
        return unit.worth(self.measure(self.place[unit]))

    def measure(self, name: str) -> Callable[[Tensor], float]:
        """Return a function from a constant of a component to the worth of one number: 1, or its bytes."""
        if self.pruning.budget and self.pruning.budget.share is not None:
            return lambda tensor: 1
        return lambda tensor: self.bytes_of(name, tensor) / tensor.size

    def spent(
        self, budget: Budget, chosen: Mapping[Unit, Choice], candidates: Sequence[Candidate]
    ) -> dict[Unit, Choice]:
        """Return the cuts that, with those `chosen`, meet the budget."""
        counts = allocate(candidates, self.left(budget, chosen, [each.unit for each in candidates]))
        return {unit: Choice(unit.seed, count) for unit, count in counts.items()}

    def left(self, budget: Budget, chosen: Mapping[Unit, Choice], others: Sequence[Unit]) -> float:
        """Return how much of the budget `others` must save beside what is `chosen`; raises BadConfig."""
        total = sum(_total(graph, self.measure(name)) for name, graph in self.graphs.items())
        gone = sum(self.each(u) * u.count * (1 - choice.share) for u, choice in chosen.items())
        goal = total * (budget.share or 0) / 100 if budget.share is not None else total - (budget.bytes or 0)
        most = gone + sum(self.each(unit) * (unit.count - min(unit.kept_counts())) for unit in others)
        if goal > most:
            raise BadConfig(self.impossible(budget, total, most))
        return goal - gone

    def impossible(self, budget: Budget, total: float, most: float) -> str:
        """Return a sentence with the largest budget that is possible."""
        parts = listed(self.graphs)
        if budget.share is not None:
            limit = f"at most {100 * most / total:.1f} % of {parts} can go"
        else:
            limit = f"the weights of {parts} take at least {(total - most) / 1e6:.3g} MB"
        return f"the budget of {budget} is impossible: {limit}, since only widths inside a block are pruned"


def _total(graph: Graph, measure: Callable[[Tensor], float]) -> float:
    """Return the worth of all learned constants of `graph`."""
    constants = [t for t in graph.tensors() if t.data is not None and not t.data.exact]
    return sum(t.size * measure(t) for t in constants)

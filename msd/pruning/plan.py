"""From what is asked for to graphs that are pruned: units found, scored, chosen, taken out and refitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msd.errors import BadConfig
from msd.ir import Graph, Tensor
from msd.pruning.budget import Candidate, Choice, allocate, by_lines
from msd.pruning.channels import Seed
from msd.pruning.criteria import Scores, magnitude
from msd.pruning.passes import Observed, scores
from msd.pruning.refitting import refit, watched
from msd.pruning.removal import Cut, remove
from msd.pruning.report import Pruned, Report
from msd.pruning.settings import Budget, Pruning
from msd.pruning.units import Unit, find_units

BytesOf = Callable[[str, Tensor], float]
"""About how many bytes a learnt constant of a component will take in the file."""


def prune(
    graphs: Mapping[str, Graph], pruning: Pruning, bytes_of: BytesOf, calibration: Observed | None = None
) -> Report:
    """Prune `graphs`, by component, as `pruning` wants, and return what was done.

    Weights stay described; those that are refitted are in files of the calibration's folder. Raises BadConfig
    for what is impossible, with what would be possible.
    """
    if calibration is None and pruning.needs_calibration:
        wants = "refitting" if pruning.refit else f"the criterion {pruning.criterion!r}"
        raise BadConfig(f"{wants} needs a calibration: give --calibration PROMPTS.txt or a folder of inputs")
    for graph in graphs.values():
        graph.remove_dead()
    plan = _Plan(graphs, pruning, bytes_of, calibration)
    done = []
    for name, cuts in plan.cuts().items():
        done += _take_out(name, graphs[name], cuts, pruning, calibration)
    budget = str(pruning.budget) if pruning.budget else None
    return Report(pruning.criterion, budget, plan.parameters, tuple(done))


def _take_out(
    name: str, graph: Graph, cuts: Sequence[Cut], pruning: Pruning, calibration: Observed | None
) -> list[Pruned]:
    """Take the cuts out of one component, refit if that is wanted, and return what was done to each unit."""
    done = [_pruned(name, cut) for cut in cuts]
    blocks = watched(graph, cuts)
    for cut in cuts:
        remove(graph, cut.seed, cut.kept)
    if calibration is None or not cuts:
        return done
    errors = refit(calibration, name, blocks, pruning.refit is not False)
    return [
        replace(unit, output_error=before, refitted_error=after)
        for unit, (before, after) in zip(done, errors, strict=True)
    ]


def _pruned(component: str, cut: Cut) -> Pruned:
    unit, share = cut.unit, cut.kept.shape[1] / cut.seed.count
    kept, gone = round(unit.width * share), round(unit.count * (1 - share) * unit.parameters)
    whole = cut.seed is not unit.seed
    return Pruned(
        component, unit.name, unit.kind, unit.groups, unit.width, kept, whole, gone, round(cut.error, 6)
    )


class _Plan:
    """What is to go from which component."""

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

    def cuts(self) -> dict[str, list[Cut]]:
        """Return what goes, by component: what single lines say, then what the budget asks for beyond."""
        chosen = by_lines(list(self.place), self.pruning.lines)
        known = self.scores({unit: choice.seed for unit, choice in chosen.items()})
        if budget := self.pruning.budget:
            others = {unit: unit.seed for unit in self.place if unit not in chosen and unit.places > 1}
            known |= self.scores(others)
            chosen |= self.spent(budget, chosen, [self.candidate(unit, known[unit]) for unit in others])
        found: dict[str, list[Cut]] = {name: [] for name in self.graphs}
        for unit, choice in chosen.items():
            if choice.share < 1:
                kept, error = known[unit].kept(choice.count), known[unit].error(choice.count)
                found[self.place[unit]].append(Cut(unit, choice.seed, kept, error))
        return found

    def scores(self, seeds: Mapping[Unit, Seed]) -> dict[Unit, Scores]:
        """Return the scores of units, entered at `seeds`."""
        found: dict[Unit, Scores] = {}
        for name, graph in self.graphs.items():
            mine = [unit for unit in seeds if self.place[unit] == name]
            if self.calibration is None or self.pruning.criterion == "magnitude":
                found |= {unit: magnitude(graph, seeds[unit]) for unit in mine}
            elif mine:
                wanted = [seeds[unit] for unit in mine]
                made = scores(self.calibration, name, graph, wanted, self.pruning.criterion)
                found |= dict(zip(mine, made, strict=True))
        return found

    def candidate(self, unit: Unit, known: Scores) -> Candidate:
        """Return a unit as the budget sees it."""
        return Candidate(unit, self.each(unit), {n: known.error(n) for n in unit.kept_counts()})

    def each(self, unit: Unit) -> float:
        """Return what one index of every group of `unit` is worth to the budget: parameters or bytes."""
        return unit.worth(self.measure(self.place[unit]))

    def measure(self, name: str) -> Callable[[Tensor], float]:
        """Return what one number of a constant of a component is worth: 1, or its bytes."""
        if self.pruning.budget and self.pruning.budget.share is not None:
            return lambda tensor: 1
        return lambda tensor: self.bytes_of(name, tensor) / tensor.size

    def spent(
        self, budget: Budget, chosen: Mapping[Unit, Choice], candidates: Sequence[Candidate]
    ) -> dict[Unit, Choice]:
        """Return the cuts that, with those `chosen`, meet the budget."""
        total = sum(_total(graph, self.measure(name)) for name, graph in self.graphs.items())
        gone = sum(self.each(u) * u.count * (1 - choice.share) for u, choice in chosen.items())
        goal = total * (budget.share or 0) / 100 if budget.share is not None else total - (budget.bytes or 0)
        most = gone + sum(each.saved(min(each.errors)) for each in candidates)
        if goal > most:
            raise BadConfig(self.impossible(budget, total, most))
        counts = allocate(candidates, goal - gone)
        return {unit: Choice(unit.seed, count) for unit, count in counts.items()}

    def impossible(self, budget: Budget, total: float, most: float) -> str:
        """Return the sentence that says what the budget could be at most."""
        parts = " and ".join(self.graphs)
        if budget.share is not None:
            limit = f"at most {100 * most / total:.1f} % of {parts} can go"
        else:
            limit = f"the weights of {parts} take at least {(total - most) / 1e6:.3g} MB"
        return f"the budget of {budget} is impossible: {limit}, from what stays inside a block"


def _total(graph: Graph, measure: Callable[[Tensor], float]) -> float:
    """Return what all learnt constants of `graph` are worth."""
    constants = [t for t in graph.tensors() if t.data is not None and not t.data.exact]
    return sum(t.size * measure(t) for t in constants)

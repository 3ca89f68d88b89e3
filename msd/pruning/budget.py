"""How much of each unit goes: what single lines ask for, then a budget spent where it costs least."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from msd.errors import BadConfig
from msd.pruning.channels import Seed
from msd.pruning.settings import Line
from msd.pruning.units import SLICE, Unit


@dataclass(frozen=True)
class Choice:
    """Of a unit entered at `seed`, `count` of each group are to stay."""

    seed: Seed
    count: int

    @property
    def share(self) -> float:
        """The share of the unit that stays."""
        return self.count / self.seed.count


@dataclass(frozen=True)
class Candidate:
    """A unit whose share a budget may choose: what one index is worth, errors by how many stay in a group."""

    unit: Unit
    each: float
    errors: Mapping[int, float]

    def saved(self, count: int) -> float:
        """What goes when `count` of each group stay, parameters or bytes."""
        return (self.unit.count - count) * self.each


def choices(unit: Unit) -> list[Choice]:
    """Return all that a unit can be cut to: as many from each group, or whole groups; narrowest first."""
    found = [Choice(unit.seed, count) for count in unit.kept_counts()]
    if whole := unit.by_groups:
        widths = {c.count * unit.groups for c in found}
        counts = range(1, whole.count)
        found += [
            Choice(whole, n) for n in counts if n * unit.count % SLICE == 0 and n * unit.count not in widths
        ]
    return sorted(found, key=lambda choice: choice.share)


def choose(unit: Unit, keep: float) -> Choice:
    """Return the cut that leaves the share `keep`; raises BadConfig, naming the nearest, where none does."""
    every = choices(unit)
    for choice in every:
        if abs(choice.share - keep) * unit.width < 0.4:
            return choice
    below = max((c.share for c in every if c.share < keep), default=None)
    above = min(c.share for c in every if c.share > keep)
    near = " or ".join(f"{share:.4g}" for share in (below, above) if share is not None)
    raise BadConfig(
        f"{unit.name} has {unit.words}, of which {keep:g} cannot stay: "
        f"that breaks a {'head' if unit.kind == 'heads' else 'group'}; the nearest are {near}"
    )


def by_lines(units: Sequence[Unit], lines: Sequence[Line]) -> dict[Unit, Choice]:
    """Return what single lines ask for; of several lines for a unit the last counts.

    Raises BadConfig for a line that is for no unit, or for a share that a unit cannot have.
    """
    found: dict[Unit, Choice] = {}
    for line in lines:
        matching = [unit for unit in units if fnmatchcase(unit.name, line.name)]
        if not matching:
            examples = ", ".join(unit.name for unit in units[:3])
            raise BadConfig(f"no unit is called {line.name}; there are {len(units)}, such as {examples}")
        for unit in matching:
            found[unit] = choose(unit, line.keep)
    return found


def allocate(candidates: Sequence[Candidate], goal: float) -> dict[Unit, int]:
    """Return how many of each group of a unit stay, so that at least `goal` goes, parameters or bytes.

    Step by step the unit goes on losing whose error rises least for the what is saved. Raises ValueError
    where even the smallest widths save less.
    """
    queue: list[tuple[float, int, int]] = []
    counts = {i: each.unit.count for i, each in enumerate(candidates)}
    for i in counts:
        _offer(queue, candidates, i, counts[i])
    saved = 0.0
    while saved < goal:
        if not queue:
            raise ValueError(f"{goal} is more than {saved}, all that can go")
        _, i, count = heapq.heappop(queue)
        saved += candidates[i].saved(count) - candidates[i].saved(counts[i])
        counts[i] = count
        _offer(queue, candidates, i, count)
    return {candidates[i].unit: n for i, n in counts.items() if n < candidates[i].unit.count}


def _offer(queue: list[tuple[float, int, int]], candidates: Sequence[Candidate], i: int, count: int) -> None:
    """Enter the next step of a unit, by what it costs for what it saves."""
    each = candidates[i]
    fewer = [n for n in each.errors if n < count]
    if fewer:
        step = max(fewer)
        cost = each.errors[step] - each.errors[count]
        heapq.heappush(queue, (cost / (each.saved(step) - each.saved(count)), i, step))

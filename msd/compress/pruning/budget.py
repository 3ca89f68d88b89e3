"""How much of each unit to remove: the recipe's shares first, then a budget where it costs least."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from msd.compress.pruning.channels import Seed
from msd.compress.pruning.settings import UnitShare
from msd.compress.pruning.units import SLICE, Unit
from msd.errors import BadConfig
from msd.files.wording import listed


@dataclass(frozen=True)
class Choice:
    """A cut of the unit entered at `seed`: `count` of each group stay."""

    seed: Seed
    count: int

    @property
    def share(self) -> float:
        """The share of the unit that stays."""
        return self.count / self.seed.count


@dataclass(frozen=True)
class Candidate:
    """A unit that a budget may cut: the worth of one index, and errors by the number kept in a group."""

    unit: Unit
    each: float
    errors: Mapping[int, float]

    def saved(self, count: int) -> float:
        """Return the parameters or bytes saved when `count` of each group stay."""
        return (self.unit.count - count) * self.each


def choices(unit: Unit) -> list[Choice]:
    """Return all cuts of a unit, narrowest first: as many from each group, or whole groups."""
    cuts = [Choice(unit.seed, count) for count in unit.kept_counts()]
    if whole := unit.by_groups:
        widths = {c.count * unit.groups for c in cuts}
        counts = range(1, whole.count)
        cuts += [
            Choice(whole, n) for n in counts if n * unit.count % SLICE == 0 and n * unit.count not in widths
        ]
    return sorted(cuts, key=lambda choice: choice.share)


def choose(unit: Unit, keep: float) -> Choice:
    """Return the cut that leaves the share `keep`; raises BadConfig, naming the nearest, where none does."""
    every = choices(unit)
    for choice in every:
        if abs(choice.share - keep) * unit.width < 0.4:
            return choice
    below = max((c.share for c in every if c.share < keep), default=None)
    above = min(c.share for c in every if c.share > keep)
    near = listed((f"{share:.4g}" for share in (below, above) if share is not None), "or")
    raise BadConfig(
        f"{unit.name} has {unit.words}, of which {keep:g} cannot stay: "
        f"that breaks a {'head' if unit.kind == 'heads' else 'group'}; the nearest are {near}"
    )


def by_shares(units: Sequence[Unit], shares: Sequence[UnitShare]) -> dict[Unit, Choice]:
    """Return the cuts that `shares` ask for; of several that match a unit, the last counts.

    Raises BadConfig for a pattern that matches no unit, or for a share that a unit cannot have.
    """
    chosen: dict[Unit, Choice] = {}
    for share in shares:
        matching = [unit for unit in units if fnmatchcase(unit.name, share.name)]
        if not matching:
            examples = ", ".join(unit.name for unit in units[:3])
            raise BadConfig(f"no unit is called {share.name}; there are {len(units)}, such as {examples}")
        for unit in matching:
            chosen[unit] = choose(unit, share.keep)
    return chosen


def allocate(candidates: Sequence[Candidate], goal: float) -> dict[Unit, int]:
    """Return how many of each group of a unit stay, so that at least `goal` parameters or bytes are saved.

    Each step cuts the unit whose error rises least for what the cut saves. Raises ValueError where even the
    smallest widths save less.
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
    """Queue the next step of a unit, by its cost relative to its saving."""
    each = candidates[i]
    fewer = [n for n in each.errors if n < count]
    if fewer:
        step = max(fewer)
        cost = each.errors[step] - each.errors[count]
        heapq.heappush(queue, (cost / (each.saved(step) - each.saved(count)), i, step))

"""The units that can be pruned: those inside a block, found by following every layer's output.

Three kinds: the channels between two layers with a normalisation between them, which loses the same number
from each of its groups or whole groups; hidden units of a feed-forward net, gated or not; heads of attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import gcd, prod

from msd.compress.pruning.channels import LAYERS, Closure, Seed, constant_behind, follow
from msd.compress.pruning.layout import Refine, UnitLayout, Unprunable
from msd.compress.pruning.relations import tensor_at
from msd.graph.ir import Graph, Op, Tensor

SLICE = 4
"""GPUs keep channels in slices of four."""

KINDS = {"channels": "channels", "hidden": "hidden units", "heads": "heads"}


@dataclass(frozen=True, eq=False)
class Unit:
    """Channels, hidden units or heads of one block."""

    name: str
    kind: str
    seed: Seed
    closure: Closure
    by_groups: Seed | None = None
    """The seed for removing whole groups of a normalisation instead."""

    @property
    def groups(self) -> int:
        """The number of groups, of which each loses the same number."""
        return self.seed.groups

    @property
    def count(self) -> int:
        """The number in each group."""
        return self.seed.count

    @property
    def width(self) -> int:
        """Channels, hidden units or heads in all."""
        return self.groups * self.count

    @cached_property
    def members(self) -> dict[Tensor, int]:
        """How many numbers of each learned constant are removed with one index of every group."""
        return {t: lay.pre * lay.groups * lay.post for t, lay in _members(self.closure).items()}

    @property
    def parameters(self) -> int:
        """How many learned numbers are removed with one index of every group."""
        return sum(self.members.values())

    def worth(self, measure: Callable[[Tensor], float]) -> float:
        """Return the sum of `measure` over these numbers."""
        return sum(count * measure(tensor) for tensor, count in self.members.items())

    @property
    def places(self) -> int:
        """The positions, pixels of an image or tokens of a text, that the consumer processes at once.

        A unit with one position, such as the time embedding's, has one sample for each step of a calibration,
        and its error feeds every block. A budget leaves it alone.
        """
        return prod(self.closure.consumers[0].outputs[0].shape[1:-1])

    @property
    def words(self) -> str:
        """The unit's size for messages: "1280 channels in 32 groups"."""
        return f"{self.width} {KINDS[self.kind]}" + (f" in {self.groups} groups" if self.groups > 1 else "")

    def kept_counts(self) -> list[int]:
        """Return how many of each group may stay, fewest first, all of them last.

        The number of channels stays a multiple of four, so that no slice of the GPU is half empty; 32 groups
        guarantee this.
        """
        step = 1 if self.kind == "heads" else SLICE // gcd(SLICE, self.groups)
        return [n for n in range(1, self.count + 1) if n == self.count or n % step == 0]


@dataclass
class PrunableUnits:
    """The units of a graph, and for each other layer with weights the reason why its output is not one."""

    units: list[Unit] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)


def find_units(graph: Graph) -> PrunableUnits:
    """Return every unit of `graph`, in the order in which the graph makes them, each once."""
    result, seen = PrunableUnits(), set[Tensor]()
    for op in graph.ops:
        if op.kind not in LAYERS or not constant_behind(tensor_at(op, 1)) or op.outputs[0] in seen:
            continue
        try:
            unit, closure = _unit(graph, op)
        except Unprunable as problem:
            result.others[layer_name(op)] = str(problem)
            continue
        seen |= {p.outputs[0] for p in closure.producers}
        result.units.append(unit)
    return result


def _unit(graph: Graph, op: Op) -> tuple[Unit, Closure]:
    seed, closure = _settle(graph, Seed(op.outputs[0], len(op.outputs[0].shape) - 1))
    if len(closure.consumers) != 1:
        raise Unprunable(f"{len(closure.consumers)} layers sum over it: it does not stay inside one block")
    kind, makers = _kind(closure), tuple(closure.producers)
    unit = Unit(
        name=_name(kind, makers),
        kind=kind,
        seed=seed,
        closure=closure,
        by_groups=_coarse(graph, seed),
    )
    if len(unit.kept_counts()) < 2:
        raise Unprunable(f"{unit.words} cannot be fewer")
    return unit, closure


def _settle(graph: Graph, seed: Seed) -> tuple[Seed, Closure]:
    """Return the view of the seed with which the search through the graph ends."""
    while True:
        try:
            return seed, follow(graph, seed)
        except Refine as refine:
            seed = refined(seed, refine)


def refined(seed: Seed, refine: Refine) -> Seed:
    """Return `seed` as `refine` views it; raises Unprunable where that is impossible."""
    layout = seed.layout.refined(refine)
    was = seed.layout
    return replace(
        seed,
        tied=seed.tied * layout.pre // was.pre,
        groups=layout.groups,
        block=seed.block * layout.post // was.post,
    )


def _coarse(graph: Graph, seed: Seed) -> Seed | None:
    """Return the seed for removing whole groups, where there are groups."""
    if seed.groups == 1:
        return None
    whole = replace(seed, groups=1, block=seed.block * seed.count)
    try:
        follow(graph, whole)
    except (Unprunable, Refine):
        return None
    return whole


def _members(closure: Closure) -> dict[Tensor, UnitLayout]:
    """Return the learned constants that contain the unit and that nothing else uses."""
    inside: dict[Tensor, UnitLayout] = {}
    for (op, place), layout in closure.constants.items():
        tensor = tensor_at(op, place)
        if not tensor.weights.exact and all(use in closure.constants for use in tensor.uses):
            inside[tensor] = layout
    return inside


def _kind(closure: Closure) -> str:
    if any(op.kind == "SOFTMAX" for op in closure.touched):
        return "heads"
    return "channels" if closure.consumers[0].kind == "CONV_2D" else "hidden"


def layer_name(op: Op) -> str:
    """Return the checkpoint's name of a layer with weights, or else that of its result."""
    constant = constant_behind(tensor_at(op, 1))
    sources = constant.weights.sources if constant else ()
    return sources[0].rpartition(".")[0] if sources else op.outputs[0].name


def _name(kind: str, makers: tuple[Op, ...]) -> str:
    """Return the name: of attention the common part of its projections' names, else the largest layer's."""
    if kind == "heads":
        names = [layer_name(op).split(".") for op in makers]
        same = takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False))
        return ".".join(words[0] for words in same) or layer_name(makers[0])
    return layer_name(max(makers, key=lambda op: (op.kind == "CONV_2D", tensor_at(op, 1).size)))

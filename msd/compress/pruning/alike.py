"""Prunes the graph of another image size as a graph of the same network was pruned, to the same weights."""

from __future__ import annotations

from collections.abc import Sequence

from msd.compress.pruning.channels import Seed
from msd.compress.pruning.removal import Cut, remove
from msd.compress.pruning.units import Unit, find_units
from msd.graph.ir import Graph, Tensor


def prune_alike(graph: Graph, pruned: Graph, cuts: Sequence[Cut]) -> None:
    """Remove from `graph` what `cuts` removed from `pruned`, and give it the weights of `pruned`.

    Both are traced graphs of one network; units and operators have the same names in both.
    """
    graph.remove_dead()
    units = {unit.name: unit for unit in find_units(graph).units}
    for seed, cut in [(_seed(units[cut.unit.name], cut), cut) for cut in cuts]:
        remove(graph, seed, cut.kept)
    _take_weights(graph, pruned)
    graph.remove_dead()
    graph.verify()


def _seed(unit: Unit, cut: Cut) -> Seed:
    """Return where `unit` is cut as `cut` cuts its own unit: each group loses some, or whole groups go."""
    if cut.seed is cut.unit.seed:
        return unit.seed
    assert unit.by_groups is not None, f"{unit.name} has groups at every size"
    return unit.by_groups


def _take_weights(graph: Graph, pruned: Graph) -> None:
    """Make the operators of `graph` read the weights that those of `pruned` read."""
    theirs = {op.outputs[0].name: op for op in pruned.ops}
    taken: dict[Tensor, Tensor] = {}
    for op in graph.ops:
        other = theirs.get(op.outputs[0].name)
        if other is not None and other.kind == op.kind:
            pairs = zip(op.inputs, other.inputs, strict=True)
            op.inputs = tuple(_taken(mine, weights, taken) for mine, weights in pairs)


def _taken(mine: Tensor | None, other: Tensor | None, taken: dict[Tensor, Tensor]) -> Tensor | None:
    """Return a constant with the weights of `other`, where a checkpoint has them; else `mine`."""
    if other is None or other.data is None or not other.data.sources:
        return mine
    return taken.setdefault(other, Tensor(other.name, other.shape, other.dtype, other.data))

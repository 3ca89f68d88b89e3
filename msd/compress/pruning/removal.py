"""Remove a unit: its constants lose indices, before they are read, and shapes follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from msd.compress.pruning.channels import Closure, Seed, follow
from msd.compress.pruning.layout import Shape, UnitLayout
from msd.compress.pruning.relations import begin, tensor_at
from msd.compress.pruning.units import Unit
from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.ir.weights import Array, Weights


@dataclass(frozen=True, eq=False)
class Cut:
    """A cut of a unit, entered at `seed`: the indices `kept`, int (groups, n), stay; `error` is its cost."""

    unit: Unit
    seed: Seed
    kept: Array
    error: float


def remove(graph: Graph, seed: Seed, kept: Array) -> None:
    """Keep only the indices `kept`, int (groups, n), ascending in each group, of the unit at `seed`.

    Raises Unprunable as `follow` does, ValueError for indices that are not the unit's; verifies the graph.
    """
    kept = np.asarray(kept)
    _require_indices(kept, seed)
    closure = follow(graph, seed)
    for tensor, uses in _uses(closure).items():
        _shorten_constant(tensor, uses, kept)
    before = {tensor: tensor.shape for tensor in closure.runtime}
    for tensor, layout in closure.runtime.items():
        tensor.shape = shorter(tensor.shape, layout, kept.shape[1])
        tensor.shape_signature = None
    for op in closure.touched:
        if change := _ARGUMENTS.get(op.kind):
            change(op, before)
    graph.verify()


def _require_indices(kept: Array, seed: Seed) -> None:
    inside = kept.ndim == 2 and kept.shape[1] > 0 and kept.min() >= 0 and kept.max() < seed.count
    if not inside or kept.shape[0] != seed.groups or (np.diff(kept, axis=1) <= 0).any():
        raise ValueError(f"{kept.tolist()} are not indices of {seed.groups} groups of {seed.count}")


def shorter(shape: Shape, layout: UnitLayout, count: int) -> Shape:
    """Return `shape` when `count` indices stay."""
    axis = layout.axis(shape)
    return (*shape[:axis], shape[axis] // layout.count * count, *shape[axis + 1 :])


def take(weights: Weights, layout: UnitLayout, kept: Array) -> Weights:
    """Return the weights with the indices `kept`, int (groups, n), alone; chosen when they are loaded."""
    groups, count = kept.shape
    shape = shorter(weights.shape, layout, count)

    def change(array: Array) -> Array:
        view = array.reshape(layout.shape)
        chosen: Array = view[:, np.arange(groups)[:, None], kept]
        return chosen.reshape(shape)

    return weights.rearrange(f"{groups * count} of {layout.groups * layout.count} units", change, shape)


def _uses(closure: Closure) -> dict[Tensor, dict[tuple[Op, int], UnitLayout]]:
    """Return the constants, each with those of its uses that lose units."""
    uses: dict[Tensor, dict[tuple[Op, int], UnitLayout]] = {}
    for (op, place), layout in closure.constants.items():
        uses.setdefault(tensor_at(op, place), {})[op, place] = layout
    return uses


def _shorten_constant(tensor: Tensor, uses: dict[tuple[Op, int], UnitLayout], kept: Array) -> None:
    """In place if every use loses the same; else those that do get constants of their own."""
    layouts = set(uses.values())
    if len(layouts) == 1 and set(uses) == set(tensor.uses):
        tensor.data = take(tensor.weights, layouts.pop(), kept)
        tensor.shape = tensor.data.shape
        return
    for (op, place), layout in uses.items():
        data = take(tensor.weights, layout, kept)
        name = f"{tensor.name}/pruned{len(tensor.uses)}"
        _put(op, place, Tensor(name, data.shape, tensor.dtype, data))


def _put(op: Op, place: int, tensor: Tensor) -> None:
    op.inputs = (*op.inputs[:place], tensor, *op.inputs[place + 1 :])


def _argument(op: Op, place: int, values: list[int]) -> None:
    """Give `op` other numbers at `place`, of the dtype that they had."""
    old = tensor_at(op, place)
    array = np.asarray(values, old.weights.dtype).reshape(old.shape if prod(old.shape) == len(values) else -1)
    _put(op, place, Build().const(array, f"{op.outputs[0].name}/{op.kind.lower()}{place}"))


def _reshape(op: Op, before: dict[Tensor, Shape]) -> None:
    shape = op.outputs[0].shape
    if op.attrs.get("new_shape") is not None and len(op.attrs["new_shape"]):
        op.attrs["new_shape"] = np.asarray(shape, np.int32)
    if len(op.inputs) > 1:
        _argument(op, 1, list(shape))


def _broadcast_to(op: Op, before: dict[Tensor, Shape]) -> None:
    _argument(op, 1, list(op.outputs[0].shape))


def _slice(op: Op, before: dict[Tensor, Shape]) -> None:
    """A part of the unit's own axis begins as many parts in as before."""
    x, y = tensor_at(op, 0), op.outputs[0]
    old = before.get(x, x.shape)
    first = [_begin(b, n, m) for b, n, m in zip(_begin_before(op, old), old, x.shape, strict=True)]
    _argument(op, 1, first)
    if op.kind == "SLICE":
        _argument(op, 2, list(y.shape))
        return
    _argument(op, 2, [b + n for b, n in zip(first, y.shape, strict=True)])
    op.attrs.update(begin_mask=0, end_mask=0)


def _begin(first: int, old: int, new: int) -> int:
    return first if old == new else first * new // old


def _begin_before(op: Op, old: Shape) -> list[int]:
    x = tensor_at(op, 0)
    now, x.shape = x.shape, old
    try:
        return begin(op)
    finally:
        x.shape = now


_ARGUMENTS: dict[str, Callable[[Op, dict[Tensor, Shape]], None]] = {
    "RESHAPE": _reshape,
    "BROADCAST_TO": _broadcast_to,
    "SLICE": _slice,
    "STRIDED_SLICE": _slice,
}
"""Operators whose arguments name sizes."""

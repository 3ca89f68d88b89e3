"""Means, sums, and largest and smallest elements over any axes."""

from __future__ import annotations

from math import prod
from typing import cast

from msd.errors import DelegateFailed
from msd.gpu.kernels.reduction import Reduction, reduce
from msd.gpu.lowering.memory import Memory
from msd.gpu.value import Dispatch, Value
from msd.graph.ir import Op


def lower_reduction(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatches of a reduction: over neighbouring axes at once, others one after another.

    The mean of means of equally many numbers is their mean.
    """
    x, y = op.operands[0], op.outputs[0]
    runs = _runs(x.shape, {int(a) % len(x.shape) for a in op.operands[1].values().reshape(-1)})
    if not runs:
        raise DelegateFailed("reduces no axis, which kernels do not")
    source, shape, dispatches = memory.value(x), list(x.shape), list[Dispatch]()
    for start, end in reversed(runs):
        outer, reduced, inner = (prod(part) for part in (shape[:start], shape[start:end], shape[end:]))
        shape[start:end] = [1] * (end - start)
        last = (start, end) == runs[0]
        result = memory.value(y) if last else Value(f"{y.name} over {start}", "f32", outer * inner)
        kind = cast(Reduction, op.kind)
        dispatches += reduce(kind, source, result, outer, reduced, inner, memory.gpu, op.kind)
        source = result
    return dispatches


def _runs(shape: tuple[int, ...], axes: set[int]) -> list[tuple[int, int]]:
    """Return the first axis of each run of neighbours and the one behind it; axes of one element join any."""
    runs: list[tuple[int, int]] = []
    for axis in sorted(a for a in axes if shape[a] > 1) or sorted(axes)[:1]:
        if runs and prod(shape[runs[-1][1] : axis]) == 1:
            runs[-1] = runs[-1][0], axis + 1
        else:
            runs.append((axis, axis + 1))
    return runs


LOWER = dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), lower_reduction)

"""Means, sums, and largest and smallest elements over neighbouring axes."""

from __future__ import annotations

from math import prod
from typing import cast

from msd.errors import DelegateFailed
from msd.gpu.kernels.reduction import Reduction, reduce
from msd.gpu.lowering.memory import Memory
from msd.gpu.value import Dispatch
from msd.graph.ir import Op


def lower_reduction(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatches of a reduction, whose axes must be neighbours, but for axes of one element."""
    x, y = op.operands[0], op.outputs[0]
    given = sorted({int(a) % len(x.shape) for a in op.operands[1].values().reshape(-1)})
    axes = [axis for axis in given if x.shape[axis] > 1] or given[:1]
    if not axes or any(x.shape[i] > 1 for i in range(axes[0], axes[-1]) if i not in axes):
        raise DelegateFailed(f"reduces the axes {given}; kernels reduce neighbouring ones")
    outer, reduced, inner = (
        prod(x.shape[part])
        for part in (slice(axes[0]), slice(axes[0], axes[-1] + 1), slice(axes[-1] + 1, None))
    )
    return reduce(
        cast(Reduction, op.kind), memory.value(x), memory.value(y), outer, reduced, inner, memory.gpu, op.kind
    )


LOWER = dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), lower_reduction)

"""From operators to dispatches: each module lowers some kinds, `lower` a whole graph."""

from __future__ import annotations

from collections.abc import Callable

from msd.errors import DelegateFailed
from msd.gpu.faults import FAULTS, fault, operator_place
from msd.gpu.fuse import FusedGraph
from msd.gpu.gpu import Gpu
from msd.gpu.lowering import attention, convolution, lookup, movement, norms, pointwise, reduction
from msd.gpu.lowering.memory import Memory
from msd.gpu.switches import Switches
from msd.gpu.value import Dispatch
from msd.graph.ir import NotConstant, Op

LowerOp = Callable[[Op, Memory], list[Dispatch]]

LOWER: dict[str, LowerOp] = {
    **attention.LOWER,
    **convolution.LOWER,
    **lookup.LOWER,
    **movement.LOWER,
    **norms.LOWER,
    **pointwise.LOWER,
    **reduction.LOWER,
}
"""How each kind of operator becomes dispatches."""
BEHIND = 8
"""The dispatches after which one is rarely replaced by another: a norm replaces what wrote its input."""


def lower(
    fused: FusedGraph, gpu: Gpu, switches: Switches, on_likely: Callable[[Dispatch], None]
) -> tuple[list[Dispatch], Memory]:
    """Return the dispatches of a fused graph in order, and the values of its tensors.

    Calls `on_likely` with most of them before the last is known; few of these are replaced by others.
    Raises DelegateFailed, naming the operator and its place, for a kind that has no kernels, or a form of it.
    """
    graph = fused.graph
    named = (tensor for signature in graph.signatures for tensor in signature.outputs.values())
    outputs, read = {*graph.outputs, *named}, {tensor for op in graph.ops for tensor in op.inputs}
    memory = Memory(gpu, switches, outputs, last=outputs - read)
    dispatches: list[Dispatch] = []
    likely = 0
    for op in graph.ops:
        dispatches += _lowered(op, fused, memory)
        for dispatch in dispatches[likely:-BEHIND]:
            on_likely(memory.replaced.get(dispatch, dispatch))
            likely += 1
    return [memory.replaced.get(dispatch, dispatch) for dispatch in dispatches], memory


def _lowered(op: Op, fused: FusedGraph, memory: Memory) -> list[Dispatch]:
    lower_op = LOWER.get(op.kind)
    place = operator_place(op, fused.number(op))
    if lower_op is None:
        raise DelegateFailed(f"{place}, has no kernel for WebGPU")
    try:
        return lower_op(op, memory)
    except DelegateFailed as problem:
        raise DelegateFailed(f"{place}, {problem}") from None
    except NotConstant as problem:
        raise DelegateFailed(f"{place}, cannot be compiled: {problem}") from None
    except FAULTS as problem:
        operands = ", ".join(map(repr, op.operands))
        raise fault(f"{place}, reads {operands}, and kernels fail on it", problem) from problem

"""From operators to dispatches: each module lowers some kinds, `lower` a whole graph."""

from __future__ import annotations

from collections.abc import Callable

from msd.errors import DelegateFailed
from msd.gpu.faults import FAULTS, fault
from msd.gpu.gpu import Gpu
from msd.gpu.lowering import attention, convolution, lookup, movement, norms, pointwise, reduction
from msd.gpu.lowering.memory import Memory
from msd.gpu.switches import Switches
from msd.gpu.value import Dispatch
from msd.graph.ir import Graph, Op

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


def lower(graph: Graph, gpu: Gpu, switches: Switches) -> tuple[list[Dispatch], Memory]:
    """Return the dispatches of a fused graph in order, and the values of its tensors.

    Raises DelegateFailed, naming the operator and its place, for a kind that has no kernels, or a form of it.
    """
    named = (tensor for signature in graph.signatures for tensor in signature.outputs.values())
    outputs, read = {*graph.outputs, *named}, {tensor for op in graph.ops for tensor in op.inputs}
    memory = Memory(gpu, switches, outputs, last=outputs - read)
    dispatches: list[Dispatch] = []
    for number, op in enumerate(graph.ops):
        lower_op = LOWER.get(op.kind)
        name = op.outputs[0].name if op.outputs else ""
        if lower_op is None:
            raise DelegateFailed(f"{op.kind}, operator {number} ({name}), has no kernel for WebGPU")
        try:
            dispatches += lower_op(op, memory)
        except DelegateFailed as problem:
            raise DelegateFailed(f"{op.kind}, operator {number} ({name}), {problem}") from None
        except FAULTS as problem:
            operands = ", ".join(map(repr, op.operands))
            clause = f"{op.kind}, operator {number} ({name}), reads {operands}, and kernels fail on it"
            raise fault(clause, problem) from problem
    return [memory.replaced.get(dispatch, dispatch) for dispatch in dispatches], memory

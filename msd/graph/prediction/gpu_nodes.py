"""The dispatches of a graph before a delegate joins any: one for each operator.

As TensorFlow Lite's and LiteRT's delegates build them: the parsers (gpu/common/model_builder.cc,
ml_drift_delegate/tflite/model_builder.cc) and `ConvertOperations` (gpu/common/gpu_model.cc,
ml_drift/common/gpu_model_util.cc).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.storage import bhwc
from msd.graph.prediction.stored_constants import constant

UNARY = frozenset(
    {
        *("ABS", "CAST", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG"),
        *("LOGICAL_NOT", "LOGISTIC", "NEG", "PRELU", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND"),
        *("RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
    }
)

BINARY = frozenset(
    {
        *("ADD", "ATAN2", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LESS"),
        *("LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL", "NOT_EQUAL", "POW"),
        *("SQUARED_DIFFERENCE", "SUB"),
    }
)

ASSOCIATIVE = ("ADD", "MUL")


@dataclass(frozen=True, eq=False)
class GpuNode:
    """One dispatch: the operators that it computes, and the runtime tensors that it reads and writes.

    `elementwise` is the number of tensors that it reads at the place of the element that it writes (the
    delegates' elementwise_inputs_); 0 for what is no elementwise operator, and cannot be linked to another.
    The first of `reads` is the one that another dispatch's result may take the place of.
    """

    ops: tuple[Op, ...]
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    elementwise: int = 0

    @property
    def kind(self) -> str:
        """The kind of the operator that it computes first."""
        return self.ops[0].kind if self.ops else "activation"


def unfused(graph: Graph) -> list[GpuNode]:
    """Return a dispatch for each operator, in order; none for what dequantises constants."""
    return [GpuNode((op,), runtime(op), op.outputs) for op in graph.ops if _runs(op)]


def runtime(op: Op) -> tuple[Tensor, ...]:
    """Return the operands that are computed while the graph runs, each once."""
    return tuple(t for t in dict.fromkeys(op.operands) if constant(t) is None)


def _runs(op: Op) -> bool:
    """Whether the operator has a dispatch: it has results, and is no DEQUANTIZE of a constant."""
    return bool(op.outputs) and not _is_constant(op)


def _is_constant(op: Op) -> bool:
    return op.kind == "DEQUANTIZE" and any(constant(result) is not None for result in op.outputs)


def parsed(graph: Graph, delegate: Delegate) -> list[GpuNode]:
    """Return the dispatches as `delegate` makes them before it joins any.

    A fused activation is a dispatch of its own, and so is each result of a SPLIT. RESHAPE of a tensor to what
    is the same (batch, height, width, channels) is none: its readers read its operand (transformations/
    remove_noop.cc, RemoveIdentityReshape).
    """
    same: dict[Tensor, Tensor] = {}
    written: dict[Tensor, int] = {}
    nodes: list[GpuNode] = []
    for place, op in enumerate(graph.ops):
        if not _runs(op):
            continue
        reads = tuple(same.get(tensor, tensor) for tensor in runtime(op))
        if op.kind == "RESHAPE" and reads and _is_identity(op, graph):
            same[op.outputs[0]] = reads[0]
            continue
        nodes += _nodes(op, _ordered(op, reads, written), delegate)
        written |= dict.fromkeys(op.outputs, place)
    return nodes


def _is_identity(op: Op, graph: Graph) -> bool:
    result = op.outputs[0]
    return bhwc(op.operands[0].shape) == bhwc(result.shape) and result not in graph.outputs


def _ordered(op: Op, reads: tuple[Tensor, ...], written: dict[Tensor, int]) -> tuple[Tensor, ...]:
    """Return two operands in the delegates' order: the larger first, then that which was written last.

    The latter among operands of one shape alone (`SwapInputs`, `IsAssociativeLinkableOp`).
    """
    if op.kind not in ASSOCIATIVE or len(reads) != 2:
        return reads
    first, second = reads
    one, other, result = (bhwc(t.shape) for t in (first, second, op.outputs[0]))
    if one[3] == other[3] and all(a <= b for a, b in zip(one[:3], other[:3], strict=True)):
        first, second = second, first
    grows = any(a != r and a == 1 for shape in (one, other) for a, r in zip(shape, result, strict=True))
    if not grows and written.get(second, -1) > written.get(first, -1):
        first, second = second, first
    return first, second


def _nodes(op: Op, reads: tuple[Tensor, ...], delegate: Delegate) -> Iterator[GpuNode]:
    if op.kind in ("SPLIT", "SPLIT_V"):
        yield from (GpuNode((op,), reads, (result,)) for result in op.outputs)
        return
    elementwise = _elementwise(op, reads, delegate)
    if op.attrs.get("fused_activation_function", "NONE") == "NONE":
        yield GpuNode((op,), reads, op.outputs, elementwise)
        return
    result = op.outputs[0]
    before = Tensor(f"{result.name}/before activation", result.shape, result.dtype)
    yield GpuNode((op,), reads, (before,), elementwise)
    yield GpuNode((), (before,), (result,), 1)


def _elementwise(op: Op, reads: Sequence[Tensor], delegate: Delegate) -> int:
    """Return `GpuNode.elementwise`; what broadcasts its first operand is written as another kernel."""
    if op.kind not in UNARY | BINARY or not reads or bhwc(reads[0].shape) != bhwc(op.outputs[0].shape):
        return 0
    if len(reads) == 1:
        return 1
    return 1 if delegate.reads_broadcast(bhwc(reads[1].shape), bhwc(op.outputs[0].shape)) else 2

"""Dispatches that a delegate makes of several operators at once, by their shape in the graph.

Mean and standard deviation (`TryMeanStdDevNormalizationV0` of ml_drift/common/kernels/
mean_stddev_normalization_parser.cc, as in gpu/common/tasks/mean_stddev_normalization.cc), a sum and the
reduction that alone reads it (`TryAddThenReduce`, ml_drift/common/kernels/reduce_parser.cc), and padding
before a convolution (transformations/merge_padding_with.cc). Left out are patterns that diffusion models do
not have: the pointwise convolution of slices, Mish, kernels for few channels, and the second form of the
normalisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msd.graph.ir import Op, Tensor
from msd.graph.ir.weights import Array
from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.gpu_nodes import GpuNode

REDUCTIONS = ("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM")

Readers = dict[Tensor, list[GpuNode]]


def readers_of(nodes: Sequence[GpuNode], outputs: Sequence[Tensor]) -> Readers:
    """Return the dispatches that read each tensor; one without operators reads the graph's outputs."""
    readers: Readers = {}
    for node in (*nodes, GpuNode((), tuple(outputs), ())):
        for tensor in node.reads:
            readers.setdefault(tensor, []).append(node)
    return readers


def with_special_nodes(
    nodes: Sequence[GpuNode], outputs: Sequence[Tensor], delegate: Delegate
) -> list[GpuNode]:
    """Return `nodes` with one dispatch in the place of the first of each pattern's."""
    readers = readers_of(nodes, outputs)
    consumed: set[GpuNode] = set()
    made: list[GpuNode] = []
    for node in nodes:
        if node in consumed:
            continue
        pattern = _normalization(node, readers) or _padding(node, readers)
        pattern = pattern or (_sum_reduced(node, readers) if delegate.joins_moves else None)
        if pattern is None:
            made.append(node)
            continue
        joined, parts = pattern
        consumed |= {*parts}
        made.append(joined)
    return made


Pattern = tuple[GpuNode, tuple[GpuNode, ...]]


def _op(node: GpuNode, kind: str) -> Op | None:
    """Return the operator of that kind which is all that the dispatch computes."""
    return node.ops[0] if len(node.ops) == 1 and node.ops[0].kind == kind else None


def _next(node: GpuNode, readers: Readers, *kinds: str) -> GpuNode | None:
    """Return the only dispatch that reads the result, if it is of one of `kinds`."""
    found = readers.get(node.writes[0], [])
    return found[0] if len(found) == 1 and any(_op(found[0], kind) for kind in kinds) else None


def _means_channels(node: GpuNode | None) -> bool:
    """Whether the dispatch is the mean over the last axis."""
    op = _op(node, "MEAN") if node else None
    axes = whole_numbers(op) if op else None
    return bool(op and axes is not None and [*axes.ravel()] in ([-1], [len(op.operands[0].shape) - 1]))


def whole_numbers(op: Op) -> Array | None:
    """Return the values of a constant second operand of whole numbers; None where there is none."""
    if len(op.operands) != 2 or op.operands[1].data is None or op.operands[1].dtype != "INT32":
        return None
    return op.operands[1].values()


def _normalization(mean: GpuNode, readers: Readers) -> Pattern | None:
    """MEAN(x); SUB(x, ·); SQUARE; MEAN; ADD(·, e); RSQRT; MUL with the difference."""
    difference = _next(mean, readers, "SUB") if _means_channels(mean) else None
    if difference is None or difference.reads != (mean.reads[0], mean.writes[0]):
        return None
    chain = list(_standard_deviation(difference, readers))
    if len(chain) != len(NORMALIZATION):
        return None
    parts = (mean, difference, *chain)
    ops = tuple(op for part in parts for op in part.ops)
    return GpuNode(ops, mean.reads, chain[-1].writes), parts


NORMALIZATION = ("MUL", "MEAN", "ADD", "RSQRT", "MUL")
"""What follows the difference from the mean; both delegates take MUL(a, a) for SQUARE(a)."""


def _standard_deviation(difference: GpuNode, readers: Readers) -> Iterator[GpuNode]:
    """Yield the dispatches after the difference for as long as they are those of the pattern."""
    users = readers.get(difference.writes[0], [])
    squares = [user for user in users if _is_square(user)]
    if len(users) != 2 or len(squares) != 1:
        return
    node: GpuNode | None = squares[0]
    for kind in NORMALIZATION[1:]:
        assert node is not None
        yield node
        node = _next(node, readers, kind)
        means_other = kind == "MEAN" and not _means_channels(node)
        if node is None or means_other or (kind == "ADD" and not _adds_number(node)):
            return
    if node in users:
        yield node


def _is_square(node: GpuNode) -> bool:
    return len(node.reads) == 1 and len(node.ops) == 1 and node.ops[0].kind in ("MUL", "SQUARE")


def _adds_number(node: GpuNode) -> bool:
    return len(node.reads) == 1 and any(t.data is not None and t.size == 1 for t in node.ops[0].operands)


def _sum_reduced(node: GpuNode, readers: Readers) -> Pattern | None:
    """ADD(x, y) of one shape, which a reduction alone reads."""
    if _op(node, "ADD") is None or len(node.reads) != 2 or node.reads[0].shape != node.reads[1].shape:
        return None
    after = _next(node, readers, *REDUCTIONS)
    return (
        None if after is None else (GpuNode((*node.ops, *after.ops), node.reads, after.writes), (node, after))
    )


def _padding(node: GpuNode, readers: Readers) -> Pattern | None:
    """PAD of height and width with zeros, which a convolution alone reads."""
    op = _op(node, "PAD")
    after = _next(node, readers, "CONV_2D", "DEPTHWISE_CONV_2D") if op else None
    amounts = whole_numbers(op) if op else None
    if op is None or after is None or amounts is None or amounts.shape != (4, 2):
        return None
    if amounts[[0, 3]].any():
        return None
    return replace(after, ops=(*after.ops, op), reads=(*node.reads, *after.reads[1:])), (node, after)

"""Layers of one pixel that read the same input: the projections of a U-Net's time embedding."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from msd.gpu.kinds import BIAS, FILTER, X
from msd.graph.ir import Quant
from msd.graph.ir.real_numbers import FLOATS
from msd.graph.ir.weights import Weights
from msd.graph.rewrite import Build, Graph, Op, Tensor, graph_pass


@graph_pass("cleanup")
def merge_vectors(graph: Graph) -> int:
    """CONVOLUTION(x, a), CONVOLUTION(x, b), x of one pixel  =>  slices of one CONVOLUTION(x, a and b)"""
    alike: dict[Hashable, list[Op]] = {}
    for op in graph.ops:
        if op.kind == "CONVOLUTION" and (key := _key(op)) is not None:
            alike.setdefault(key, []).append(op)
    groups = [ops for ops in alike.values() if len(ops) > 1]
    for ops in groups:
        _merge(graph, ops)
    return len(groups)


def _key(op: Op) -> Hashable | None:
    """Return what layers that may be merged have in common; None for one that may not be."""
    filters = op.operands[FILTER]
    _, height, width, _ = op.outputs[0].shape
    plain = height == width == 1 and filters.shape[1:3] == (1, 1) and not any(op.inputs[BIAS + 1 :])
    bias = op.inputs[BIAS]
    if not plain or len(filters.shape) != 4 or not _scaled_by_output(filters):
        return None
    if bias is None or bias.data is None or bias.dtype not in FLOATS:
        return None
    scaled = filters.quant is not None and filters.quant.scale.size > 0
    return id(op.operands[X]), filters.dtype, scaled, bias.dtype, str(op.attrs["activation"])


def _scaled_by_output(filters: Tensor) -> bool:
    quant = filters.quant
    if quant is None or not quant.scale.size:
        return True
    return quant.axis == 0 and quant.scale.size == filters.shape[0] and not quant.zero_point.any()


def _merge(graph: Graph, ops: Sequence[Op]) -> None:
    new, first = Build(f"{ops[0].outputs[0].name}/merged"), ops[0]
    widths = [op.outputs[0].shape[3] for op in ops]
    batch = first.outputs[0].shape[0]
    filters = _joined([op.operands[FILTER] for op in ops])
    bias = _joined([op.operands[BIAS] for op in ops])
    inputs = (first.operands[X], filters, bias, *first.inputs[BIAS + 1 :])
    merged = new.again(first, *inputs, shape=(batch, 1, 1, sum(widths)))
    starts = np.cumsum([0, *widths])
    pairs = zip(starts, widths, strict=False)
    parts = [new.SLICE(merged, [0, 0, 0, int(start)], [batch, 1, 1, n]) for start, n in pairs]
    graph.insert_before(min(ops, key=graph.ops.index), new.ops)
    for op, part in zip(ops, parts, strict=True):
        old = op.outputs[0]
        graph.replace_tensor(old, part)
        part.name = old.name
    graph.erase(ops)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Return the constants behind one another along the first axis, with the scales of each."""
    joined = Weights.joined([tensor.weights for tensor in tensors])
    quant = _joined_quant([tensor.quant for tensor in tensors])
    return Tensor(f"{tensors[0].name}/merged", joined.shape, tensors[0].dtype, joined, quant)


def _joined_quant(quants: Sequence[Quant | None]) -> Quant | None:
    known = [quant for quant in quants if quant is not None and quant.scale.size]
    if not known:
        return None
    scales, zeros = ([getattr(quant, name) for quant in known] for name in ("scale", "zero_point"))
    return Quant(np.concatenate(scales), np.concatenate(zeros))

"""A graph split into pieces that run one after the other, each a graph of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from msd.graph.ir import NUMPY, SIGNATURE, Graph, Op, Signature, Tensor

WINDOW = 0.25
"""The distance that a cut may move to cross fewer bytes, as a fraction of a piece's operators."""


def split_graph(graph: Graph, count: int) -> list[Graph]:
    """Return `graph` as at most `count` pieces with about equal bytes of constants.

    The pieces share the graph's tensors and leave them unchanged. Run in order, each on the results of the
    earlier ones, they compute the same as the graph. Their inputs and outputs have the names of their
    tensors. Raises ValueError for a graph with variables, which cannot be split.
    """
    if any(t.is_variable for t in graph.tensors()):
        raise ValueError("it has variables, which pieces cannot share")
    crossing = _crossing(graph)
    places = [_best(place, crossing, len(graph.ops) / count) for place in _even(graph.ops, count)]
    bounds = sorted({0, *places, len(graph.ops)})
    return [_piece(graph, start, stop) for start, stop in pairwise(bounds)]


def _even(ops: Sequence[Op], count: int) -> list[int]:
    """Return the cuts that give each piece an equal share of constants and operators."""
    seen: set[Tensor] = set()
    sizes = []
    for op in ops:
        constants = [t for t in op.operands if t.data is not None and t not in seen]
        seen.update(constants)
        sizes.append(sum(map(tensor_bytes, constants)))
    each = max(sum(sizes), 1) / max(len(ops), 1)
    totals = list(accumulate(size + each for size in sizes))
    whole = totals[-1] if totals else 0
    return [
        next(i for i, total in enumerate(totals, 1) if total >= whole * n / count) for n in range(1, count)
    ]


def _crossing(graph: Graph) -> list[int]:
    """Return for each possible cut the bytes that are computed before and read after it."""
    place = {op: i for i, op in enumerate(graph.ops)}
    change = [0] * (len(graph.ops) + 2)
    returned = set(graph.outputs)
    for tensor in graph.tensors():
        if tensor.data is None:
            first = place[tensor.producer] + 1 if tensor.producer in place else 0
            uses = [place[op] for op, _ in tensor.uses if op in place]
            last = len(graph.ops) if tensor in returned else max(uses, default=-1)
            if first <= last:
                change[first] += tensor_bytes(tensor)
                change[last + 1] -= tensor_bytes(tensor)
    return list(accumulate(change))[:-1]


def _best(place: int, crossing: Sequence[int], each: float) -> int:
    reach = max(1, math.floor(each * WINDOW))
    nearby = range(max(1, place - reach), min(len(crossing) - 1, place + reach + 1))
    return min(nearby, key=lambda at: (crossing[at], abs(at - place)), default=place)


def tensor_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor's elements as they are stored; int4 and int2 share a byte."""
    if tensor.dtype in ("INT4", "INT2"):
        return -(-tensor.size // (2 if tensor.dtype == "INT4" else 4))
    return tensor.size * np.dtype(NUMPY.get(tensor.dtype, "float32")).itemsize


def _piece(graph: Graph, start: int, stop: int) -> Graph:
    """Return the operators from `start` to `stop` as a graph with the tensors that cross its borders."""
    ops = graph.ops[start:stop]
    inside = set(ops)
    inputs = dict.fromkeys(
        t for op in ops for t in op.operands if t.data is None and t.producer not in inside
    )
    outputs = dict.fromkeys(t for op in ops for t in op.outputs if _is_read_later(graph, t, inside))
    piece = Graph(inputs, outputs, ops, graph.name)
    piece.signatures = [Signature(SIGNATURE, _by_name(inputs), _by_name(outputs))]
    return piece


def _is_read_later(graph: Graph, tensor: Tensor, inside: set[Op]) -> bool:
    return any(t is tensor for t in graph.outputs) or any(op not in inside for op, _ in tensor.uses)


def _by_name(tensors: dict[Tensor, None]) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in tensors}

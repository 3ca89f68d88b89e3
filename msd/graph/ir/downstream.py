"""The tensors that depend on given ones."""

from __future__ import annotations

from collections.abc import Iterable

from msd.graph.ir import Graph, Tensor


def downstream(graph: Graph, tensors: Iterable[Tensor]) -> set[Tensor]:
    """Return `tensors` and every tensor of `graph` that is computed from any of them."""
    dependent = set(tensors)
    for op in graph.ops:
        if dependent.intersection(op.operands):
            dependent.update(op.outputs)
    return dependent

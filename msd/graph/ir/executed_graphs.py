"""The graphs of a model whose operators run."""

from __future__ import annotations

from collections.abc import Collection

from msd.graph.ir import Graph, Model, Op

COMPOSITE = "STABLEHLO_COMPOSITE"
"""The kind of the operators that stand for a graph of their own, and have a name."""


def executed_graphs(model: Model, rejected: Collection[tuple[str, str]] = ()) -> list[Graph]:
    """Return the graphs that a delegate partitions: all but the decompositions of composite operators.

    Those of composites that it has `rejected` are among them, as (kind, reason) of its log, which gives a
    composite's name as the reason: the runtime then runs its decomposition, as it runs the body of a loop,
    and hands it to the delegate.
    """
    composites = [op for graph in model.graphs for op in graph.ops if op.kind == COMPOSITE]
    folded = [op.attrs for op in composites if (COMPOSITE, composite_name(op)) not in rejected]
    decompositions = {attrs.get("decomposition_subgraph_index") for attrs in folded}
    return [graph for i, graph in enumerate(model.graphs) if graph.ops and i not in decompositions]


def composite_name(op: Op) -> str:
    """Return the name of a composite operator; "" of any other."""
    if op.kind != COMPOSITE:
        return ""
    name = op.attrs.get("name") or ""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def executed_ops(model: Model) -> list[Op]:
    """Return the operators of those graphs, in order."""
    return [op for graph in executed_graphs(model) for op in graph.ops]

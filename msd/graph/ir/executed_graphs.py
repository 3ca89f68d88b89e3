"""The graphs of a model whose operators run."""

from __future__ import annotations

from msd.graph.ir import Graph, Model, Op


def executed_graphs(model: Model) -> list[Graph]:
    """Return the graphs that a delegate partitions: all but the decompositions of composite operators."""
    attributes = [op.attrs for graph in model.graphs for op in graph.ops]
    decompositions = {attrs.get("decomposition_subgraph_index") for attrs in attributes}
    return [graph for i, graph in enumerate(model.graphs) if graph.ops and i not in decompositions]


def executed_ops(model: Model) -> list[Op]:
    """Return the operators of those graphs, in order."""
    return [op for graph in executed_graphs(model) for op in graph.ops]

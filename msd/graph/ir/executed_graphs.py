"""The graphs of a model whose operators run."""

from __future__ import annotations

from msd.graph.ir import Graph, Model


def executed_graphs(model: Model) -> list[Graph]:
    """Return the graphs that a delegate partitions: all but the decompositions of composite operators."""
    attributes = [op.attrs for graph in model.graphs for op in graph.ops]
    decompositions = {attrs.get("decomposition_subgraph_index") for attrs in attributes}
    return [graph for i, graph in enumerate(model.graphs) if graph.ops and i not in decompositions]

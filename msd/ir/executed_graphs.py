"""Which graphs of a model run."""

from __future__ import annotations

from msd.ir import Graph, Model


def executed_graphs(model: Model) -> list[Graph]:
    """Return the graphs whose operations a delegate is asked about: a composite stands for its own graph."""
    options = [op.attrs for graph in model.graphs for op in graph.ops]
    inside = {attrs.get("decomposition_subgraph_index") for attrs in options}
    return [graph for i, graph in enumerate(model.graphs) if graph.ops and i not in inside]

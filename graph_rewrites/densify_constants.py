"""Sparse constants become dense: GPU delegates read what they store as if it were all of them."""

from msd.graph.rewrite import Graph, densify, graph_pass


@graph_pass("canonicalize")
def densify_constants(graph: Graph) -> int:
    """sparse constant, or DENSIFY of it  =>  dense constant, as TensorFlow Lite's DENSIFY expands it"""
    return densify(graph)

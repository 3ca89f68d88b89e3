"""Weights that are dequantised before use: kernels read them as they are stored."""

from msd.graph.rewrite import Graph, graph_pass


@graph_pass("canonicalize")
def use_stored_weights(graph: Graph) -> int:
    """f(DEQUANTIZE(constant))  =>  f(constant)"""
    changes = 0
    for op in list(graph.ops):
        if op.kind == "DEQUANTIZE" and op.operands[0].data is not None and op.outputs[0].uses:
            if any(t is op.outputs[0] for t in graph.outputs):
                continue
            graph.replace_tensor(op.outputs[0], op.operands[0])
            changes += 1
    return changes

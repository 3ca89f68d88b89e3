"""Sparse constants become dense."""

from __future__ import annotations

from msd.graph.ir.graph import NUMPY, Graph, Tensor


def densify(graph: Graph) -> int:
    """Make sparse constants dense, without a DENSIFY of them; return the changes.

    Constants of types that NumPy lacks stay sparse, and so do those of which the graph returns a DENSIFY: an
    output needs an operator, and DENSIFY takes no dense constant.
    """
    returned = {op.operands[0] for op in graph.ops if op.kind == "DENSIFY" and op.outputs[0] in graph.outputs}
    sparse = (t for t in graph.tensors() if t.sparsity is not None and t not in returned)
    found = [t for t in sparse if t.data is not None and t.dtype in NUMPY]
    for tensor in found:
        graph.replace_tensor(tensor, _dense(tensor))
    return len(found) + _drop_densify(graph)


def _dense(tensor: Tensor) -> Tensor:
    assert tensor.sparsity is not None
    weights = tensor.sparsity.dense(tensor.weights, tensor.shape, NUMPY[tensor.dtype])
    return Tensor(tensor.name, tensor.shape, tensor.dtype, weights, tensor.quant)


def _drop_densify(graph: Graph) -> int:
    ops = [op for op in graph.ops if op.kind == "DENSIFY" and _is_plain(op.operands[0])]
    dropped = [op for op in ops if op.outputs[0] not in graph.outputs]
    for op in dropped:
        graph.replace_tensor(op.outputs[0], op.operands[0])
    graph.erase(dropped)
    return len(dropped)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.data is not None and tensor.sparsity is None

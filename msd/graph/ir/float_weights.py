"""Quantised weights with float arithmetic: the GPU delegate's computation, made explicit for the CPU.

A convolution with int8 weights and a float32 input runs differently on the two: the GPU dequantises the
weights, the CPU also quantises the input ("dynamic range"). With a DEQUANTIZE before each such weight the CPU
computes the same as the GPU, and the weights stay as small in the file as before.
"""

from __future__ import annotations

from msd.graph.ir import Build, Graph, Model, Tensor

EXACT = frozenset({"DEQUANTIZE", "EMBEDDING_LOOKUP", "CAST", "QUANTIZE"})
"""Operators that read such a tensor without arithmetic on a quantised input."""

SCALED = frozenset({"INT8", "UINT8", "INT4", "INT2"})
VERSIONS = {"INT8": 2, "UINT8": 2, "INT4": 6, "INT2": 6, "FLOAT16": 3}
"""The lowest version of DEQUANTIZE for each type. GPU delegates support versions up to 3.

Per-channel scales belong to version 5, which the kernels do not require.
"""


def dequantize_weights(model: Model, integers: bool = True) -> int:
    """Put a DEQUANTIZE before every weight that is stored smaller than float32; return how many were added.

    These are the int8, uint8, int4, int2 and float16 constants that an operator with float32 results reads,
    or without `integers` the float16 ones alone: the CPU would read them as float32, beyond their end.
    """
    return sum(_dequantize(graph, integers) for graph in model.graphs)


def reads_integer_weights(model: Model) -> bool:
    """Return whether an operator computes float32 results from constants that are stored as integers."""
    return any(
        tensor is not None and _is_small(tensor) and tensor.dtype in SCALED
        for graph in model.graphs
        for op in graph.ops
        if op.kind not in EXACT and all(t.dtype == "FLOAT32" for t in op.outputs)
        for tensor in op.inputs
    )


def _dequantize(graph: Graph, integers: bool) -> int:
    new, floats = Build(), dict[Tensor, Tensor]()

    def as_float(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or not _is_small(tensor) or not (integers or tensor.dtype == "FLOAT16"):
            return tensor
        if tensor not in floats:
            floats[tensor] = new.DEQUANTIZE(tensor, version=VERSIONS[tensor.dtype])
            floats[tensor].name = f"{tensor.name} as float32"
        return floats[tensor]

    for op in graph.ops:
        if op.kind not in EXACT and all(t.dtype == "FLOAT32" for t in op.outputs):
            op.inputs = tuple(map(as_float, op.inputs))
    graph.ops[:0] = new.ops
    return len(new.ops)


def _is_small(tensor: Tensor) -> bool:
    scaled = tensor.quant is not None and tensor.quant.scale.size > 0
    return tensor.data is not None and (tensor.dtype == "FLOAT16" or (tensor.dtype in SCALED and scaled))

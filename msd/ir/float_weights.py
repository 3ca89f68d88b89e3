"""Quantised weights with float arithmetic: what a GPU delegate computes, made explicit for the CPU.

A convolution whose weights are int8 and whose input is float32 runs differently on the two: the GPU brings
the weights back to float, the CPU quantises the input as well ("dynamic range"). Put a DEQUANTIZE operation
before each such weight and the CPU computes what the GPU does; the weights stay as small in the file as they
were.
"""

from __future__ import annotations

from msd.ir import Build, Graph, Model, Tensor

EXACT = frozenset({"DEQUANTIZE", "EMBEDDING_LOOKUP", "CAST", "QUANTIZE"})
"""Operations that take such a tensor and involve no arithmetic with a quantised input."""

SCALED = frozenset({"INT8", "UINT8", "INT4"})
VERSIONS = {"INT8": 2, "UINT8": 2, "INT4": 6, "FLOAT16": 3}
"""The lowest version of DEQUANTIZE for each: kernels do not ask for 5, which scales per slice belong to.

GPU delegates end at 3.
"""


def dequantize_weights(model: Model) -> int:
    """Put a DEQUANTIZE before every weight that is stored smaller than float32; returns how many that took.

    That is every int8, uint8, int4 or float16 constant that an operation with float32 results takes directly.
    """
    return sum(map(_give, model.graphs))


def _give(graph: Graph) -> int:
    new, floats = Build(), dict[Tensor, Tensor]()

    def as_float(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or not _is_small(tensor):
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

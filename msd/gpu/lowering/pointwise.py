"""Operators on each element, with NumPy's broadcasting."""

from __future__ import annotations

from math import isfinite

from msd.errors import DelegateFailed
from msd.gpu.kernels.pointwise import BINARY, IDENTITY, UNARY, Strided, compute
from msd.gpu.kinds import activation_of
from msd.gpu.lowering.memory import Memory
from msd.gpu.operations import Activation
from msd.gpu.value import Dispatch
from msd.gpu.views import contiguous_strides
from msd.graph.ir import Op, Tensor
from msd.graph.ir.real_numbers import FLOATS

ACTIVATIONS = ("GELU", "LOGISTIC", "QUICK_GELU", "RELU", "RELU6", "RELU_N1_TO_1", "SILU", "TANH")


def lower_binary(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a sum, a product and the like, with its fused activation."""
    activation = op.attrs.get("fused_activation_function", "NONE")
    if activation not in ("NONE", *ACTIVATIONS):
        raise DelegateFailed(f"has the fused activation {activation}, which kernels do not")
    return _compute(BINARY[op.kind], op, memory, activation)


def lower_unary(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a function of each element."""
    return _compute(UNARY[op.kind], op, memory)


def lower_leaky_relu(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a ReLU that is not flat below zero."""
    slope = float(op.attrs["alpha"])
    if not isfinite(slope):
        raise DelegateFailed(f"has the slope {slope}, which kernels do not")
    return _compute(f"select($a, $a * {slope!r}, $a < $zero)", op, memory)


def lower_activation(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of an activation."""
    return _compute(IDENTITY, op, memory, activation_of(op))


def lower_equal(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a comparison of whole numbers below 2^24, which are exact as f32: 1 or 0."""
    if any(tensor.dtype != "INT32" for tensor in op.operands):
        raise DelegateFailed("compares other numbers than int32, which kernels do not")
    return _strided("1.0 - sign(abs($a - $b))", op, memory)


def lower_cast(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch that turns truth values or whole numbers below 2^24 into real ones."""
    x, y = op.operands[0], op.outputs[0]
    if x.dtype not in ("BOOL", "INT32", *FLOATS) or y.dtype not in FLOATS:
        raise DelegateFailed(f"casts {x.dtype.lower()} to {y.dtype.lower()}, which kernels do not")
    return _strided(IDENTITY, op, memory)


def broadcast_strides(tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides that repeat `tensor` to `shape`."""
    own = (1,) * (len(shape) - len(tensor.shape)) + tensor.shape
    strides = contiguous_strides(own)
    return tuple(0 if size == 1 else stride for size, stride in zip(own, strides, strict=True))


def _compute(expression: str, op: Op, memory: Memory, activation: Activation = "NONE") -> list[Dispatch]:
    y = op.outputs[0]
    if y.dtype not in ("FLOAT32", "FLOAT16"):
        raise DelegateFailed(f"computes {y.dtype.lower()}, which kernels do not")
    return _strided(expression, op, memory, activation)


def _strided(expression: str, op: Op, memory: Memory, activation: Activation = "NONE") -> list[Dispatch]:
    y = op.outputs[0]
    operands = [Strided(memory.value(t), broadcast_strides(t, y.shape)) for t in op.operands]
    result = Strided(memory.value(y), contiguous_strides(y.shape))
    return compute(expression, operands, result, y.shape, memory.gpu, activation, op.kind)


LOWER = {
    **dict.fromkeys(BINARY, lower_binary),
    **dict.fromkeys(UNARY, lower_unary),
    **dict.fromkeys(ACTIVATIONS, lower_activation),
    "LEAKY_RELU": lower_leaky_relu,
    "CAST": lower_cast,
    "EQUAL": lower_equal,
}

"""The real numbers that a constant stands for, whatever its file stores them as."""

from __future__ import annotations

import numpy as np

from msd.files.wording import counted
from msd.graph.ir.graph import Quant, Tensor
from msd.graph.ir.weights import Array

FLOATS = ("FLOAT32", "FLOAT16")
QUANTISED = ("INT8", "UINT8", "INT16", "INT4", "INT2")
"""Integers whose real numbers are scale * (stored - zero point)."""


def obstacle(tensor: Tensor) -> str | None:
    """Return why the real numbers of a constant are unknown, as a clause; None where they are known."""
    quant, kind = tensor.quant, tensor.dtype.lower()
    if tensor.data is None:
        return f"reads {tensor.name}, which is computed, where a constant is expected"
    if tensor.weights.shape != tensor.shape and tensor.dtype in (*FLOATS, *QUANTISED):
        return f"has a sparse constant, {tensor.name}, whose places are not read"
    if tensor.dtype in FLOATS:
        return None
    if tensor.dtype not in QUANTISED:
        return f"has a constant of type {kind}, {tensor.name}"
    if quant is None or not quant.scale.size:
        block = quant.block_size if quant else 0
        lacks = f"with a scale for each block of {block} numbers" if block else "without a scale"
        return f"has {kind} numbers {lacks}, {tensor.name}"
    return None if _fits(quant, tensor.shape) else _misfit(quant, tensor)


def real_numbers(tensor: Tensor) -> Array:
    """Return a constant's numbers, float32 of its shape; raises ValueError for one that has an `obstacle`."""
    if clause := obstacle(tensor):
        raise ValueError(clause)
    stored = tensor.weights.load().astype(np.float32)
    if tensor.dtype in FLOATS or tensor.quant is None:
        return stored
    scale, zero = (_along(array, tensor) for array in (tensor.quant.scale, tensor.quant.zero_point))
    return np.asarray((stored - zero if zero.any() else stored) * scale, np.float32)


def _fits(quant: Quant, shape: tuple[int, ...]) -> bool:
    slices = shape[quant.axis] if 0 <= quant.axis < len(shape) else 1
    return quant.scale.size in (1, slices) and quant.zero_point.size in (0, 1, slices)


def _misfit(quant: Quant, tensor: Tensor) -> str:
    scales, zeros = counted(quant.scale.size, "scale"), counted(quant.zero_point.size, "zero point")
    counts = f"{scales} and {zeros} along axis {quant.axis}"
    return f"has {counts} for a constant of shape {list(tensor.shape)}, {tensor.name}"


def _along(array: Array, tensor: Tensor) -> Array:
    """Return scales or zero points in a shape that broadcasts to the tensor's."""
    shape = [1] * len(tensor.shape)
    if array.size > 1 and tensor.quant:
        shape[tensor.quant.axis] = array.size
    return (array if array.size else np.zeros(1)).astype(np.float32).reshape(shape)

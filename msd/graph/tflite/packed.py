"""Integers of fewer than eight bits, several to a byte, the first in the lowest bits.

TFLite packs a tensor as a whole: rows of odd length begin in the middle of a byte, and zeros fill the last
(tensorflow/lite/kernels/internal/portable_tensor_utils.h, UnpackPackedIntToInt8). In memory each is int8.
"""

from __future__ import annotations

import numpy as np

from msd.graph.ir.weights import Array

BITS = {"INT4": 4, "INT2": 2}
"""The bits of the packed types, which are signed."""


def packed_bytes(count: int, dtype: str) -> int:
    """Return the bytes that `count` integers of a packed type take."""
    return -(-count * BITS[dtype] // 8)


def pack(values: Array, dtype: str) -> Array:
    """Return the bytes, uint8, of int8 values that fit the packed type."""
    bits = BITS[dtype]
    parts = np.zeros((packed_bytes(values.size, dtype), 8 // bits), np.uint8)
    parts.reshape(-1)[: values.size] = values.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    packed: Array = parts[:, 0]
    for i in range(1, 8 // bits):
        packed = packed | parts[:, i] << (bits * i)
    return packed


def unpack(data: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return the int8 values of `shape` in `data`, the bytes, uint8, of a packed type."""
    bits = BITS[dtype]
    values = np.empty((data.size, 8 // bits), np.int8)
    for i in range(8 // bits):
        values[:, i] = (data << (8 - bits * (i + 1))).view(np.int8) >> (8 - bits)
    return values.reshape(-1)[: np.prod(shape, dtype=np.int64)].reshape(shape)

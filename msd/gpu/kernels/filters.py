"""Weights packed for the kernels: K x N matrices of int8, int4, f16 or f32, read when they are uploaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

import numpy as np

from msd.gpu.gpu import Element, Gpu
from msd.gpu.operations import Filter, Stored
from msd.gpu.value import Value

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

BLOCK = (1024, 320)
"""Rows and columns that are transposed at once: source and result then stay in a core's caches."""

COLUMNS_OF_A_WORD: dict[Stored, int] = {"int8": 4, "int4": 8, "f16": 4, "f32": 4}
"""The columns that a row of a packed filter is padded to whole groups of."""


def pack_filter(
    load: Callable[[], Array],
    stored: Stored,
    rows: int,
    columns: int,
    scale: Array | None,
    gpu: Gpu,
    name: str,
) -> Filter:
    """Return the filter of `rows` inputs and `columns` outputs that `load()` has, packed when it is uploaded.

    `load()` returns an array whose first axis is the outputs: OHWI, or (outputs, inputs). It is int8 for int8
    and for int4, whose values are -8..7, and of floats for f16 and f32. `scale` has a factor for each output.
    Raises ValueError for an unknown `stored` or a scale of another length; the value's `load` raises it for
    an array of another size.
    """
    if stored not in get_args(Stored):
        raise ValueError(f"{name}: weights stored as {stored} are unknown; int8, int4, f16 and f32 are known")
    if scale is not None and scale.size != columns:
        raise ValueError(f"{name} has {columns} outputs, and {scale.size} scales")
    padded = padded_columns(stored, columns)

    def packed() -> Array:
        return _pack(_matrix(load(), rows, columns, name), stored, padded, gpu)

    element, values = _elements(stored, gpu)
    value = Value(name, element, rows * padded // values, packed)
    factors = None if scale is None else vector_value(scale, f"{name}.scale")
    return Filter(value, stored, rows, columns, scale=factors)


def vector_value(numbers: Array, name: str) -> Value:
    """Return a constant of f32, a bias or a scale, that holds `numbers`."""
    held = np.ascontiguousarray(numbers, np.float32).reshape(-1)
    return Value(name, "f32", held.size, lambda: held)


def padded_columns(stored: Stored, columns: int) -> int:
    """Return the columns of a packed row, padding included."""
    group = COLUMNS_OF_A_WORD[stored]
    return -(-columns // group) * group


def interleave(values: Array, gates: Array) -> Array:
    """Return one array with blocks of four of `values`' first axis, each followed by the same of `gates`.

    So Epilogue.gate wants the outputs of a filter, its scales and its biases. Raises ValueError unless the
    shapes are equal and the first axis divides by four.
    """
    if values.shape != gates.shape or len(values) % 4:
        raise ValueError(
            f"gates of shape {gates.shape} do not pair with values of shape {values.shape} by fours"
        )
    blocks = [array.reshape(-1, 4, *array.shape[1:]) for array in (values, gates)]
    stacked: Array = np.stack(blocks, axis=1)
    return stacked.reshape(-1, *values.shape[1:])


def _elements(stored: Stored, gpu: Gpu) -> tuple[Element, int]:
    """Return the type of a packed filter's elements, and the weights in each."""
    if stored == "f32":
        return "f32", 1
    if stored == "f16":
        return ("f16", 1) if gpu.half else ("u32", 2)
    return "u32", COLUMNS_OF_A_WORD[stored]


def _matrix(array: Array, rows: int, columns: int, name: str) -> Array:
    if array.shape[:1] != (columns,) or array.size != rows * columns:
        raise ValueError(
            f"{name} has shape {array.shape}; {columns} outputs of {rows} weights each were expected"
        )
    return array.reshape(columns, rows)


def _pack(matrix: Array, stored: Stored, padded: int, gpu: Gpu) -> Array:
    if stored == "f32":
        return _transposed(matrix.astype(np.float32, copy=False), padded)
    if stored == "f16":
        halves = _transposed(matrix.astype(np.float16, copy=False), padded)
        return halves if gpu.half else halves.view(np.uint32)
    bytes_ = _transposed(matrix.astype(np.int8, copy=False), padded)
    if stored == "int8":
        return bytes_.view(np.uint32)
    nibbles: Array = bytes_.view(np.uint8) & 15
    paired: Array = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    return paired.view(np.uint32)


def _transposed(matrix: Array, padded: int) -> Array:
    """Return the transpose with columns of zeros up to `padded`."""
    columns, rows = matrix.shape
    result = np.zeros((rows, padded), matrix.dtype)
    for row in range(0, rows, BLOCK[0]):
        for column in range(0, columns, BLOCK[1]):
            block = matrix[column : column + BLOCK[1], row : row + BLOCK[0]]
            result[row : row + BLOCK[0], column : column + block.shape[0]] = block.T
    return result

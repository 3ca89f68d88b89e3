"""Constant weights as a file stores them: numbers, and the scale of each slice of the first axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from msd.errors import DelegateFailed
from msd.ir import Tensor
from msd.ir.weights import Array
from msd.webgpu.operations import Stored

STORED: dict[str, Stored] = {"INT8": "int8", "INT4": "int4", "FLOAT16": "f16", "FLOAT32": "f32"}


@dataclass(frozen=True)
class FileWeights:
    """Weights in the file's type; `scale` is f32 of the first axis, None for floats."""

    load: Callable[[], Array]
    stored: Stored
    shape: tuple[int, ...]
    scale: Array | None

    def floats(self) -> Array:
        """Return the weights as float32."""
        values = self.load().astype(np.float32)
        return values if self.scale is None else values * self.scale.reshape(-1, *[1] * (values.ndim - 1))


def stored_weights(tensor: Tensor, shape: tuple[int, ...] | None = None) -> FileWeights:
    """Return a constant's weights, in another shape if one is given.

    Raises DelegateFailed, a clause, for types that kernels do not read, and for integers with zero points or
    with scales along another axis than the first.
    """
    stored, wanted = STORED.get(tensor.dtype), shape or tensor.shape
    if stored is None or tensor.data is None:
        raise DelegateFailed(f"has weights of type {tensor.dtype.lower()}, which kernels do not read")
    load, quant = tensor.weights.load, tensor.quant
    if quant is None or not quant.scale.size:
        if stored in ("int8", "int4"):
            block = quant.block_size if quant else 0
            scales = f"with a scale for each block of {block} numbers" if block else "without a scale"
            raise DelegateFailed(f"has integer weights {scales}, {tensor.name}, which kernels do not read")
        return FileWeights(lambda: load().reshape(wanted), stored, wanted, None)
    if quant.zero_point.any() or (quant.axis != 0 and quant.scale.size > 1):
        raise DelegateFailed(f"has zero points, or scales along another axis than the first, {tensor.name}")
    scale = np.broadcast_to(quant.scale, (tensor.shape[0],)).astype(np.float32)
    return FileWeights(lambda: load().reshape(wanted), stored, wanted, scale)

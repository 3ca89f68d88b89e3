"""Constant weights as a file stores them: numbers, and the scale of each slice of the first axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from msd.errors import DelegateFailed
from msd.gpu.operations import Stored
from msd.graph.ir import Tensor
from msd.graph.ir.real_numbers import FLOATS, obstacle, real_numbers
from msd.graph.ir.weights import Array

STORED: dict[str, Stored] = {
    "INT8": "int8",
    "INT4": "int4",
    "INT2": "int4",
    "FLOAT16": "f16",
    "FLOAT32": "f32",
}
"""What kernels read as it is stored; int2, which only others write, takes the room of int4."""


@dataclass(frozen=True)
class FileWeights:
    """Weights in the file's type, or in float32; `scale` is f32 of the first axis, None for floats."""

    load: Callable[[], Array]
    stored: Stored
    shape: tuple[int, ...]
    scale: Array | None

    def as_floats(self) -> FileWeights:
        """Return the same weights in float32."""
        load, scale = self.load, self.scale

        def floats() -> Array:
            values = load().astype(np.float32)
            return values if scale is None else values * scale.reshape(-1, *[1] * (values.ndim - 1))

        return FileWeights(floats, "f32", self.shape, None)


def stored_weights(tensor: Tensor, shape: tuple[int, ...] | None = None) -> FileWeights:
    """Return a constant's weights, in another shape if one is given.

    They are float32 where integers are of a type that kernels do not read, or have zero points or scales
    along another axis than the first. Raises DelegateFailed, a clause, where their real numbers are unknown.
    """
    require_known(tensor)
    wanted, load, quant = shape or tensor.shape, tensor.weights.load, tensor.quant
    if tensor.dtype in FLOATS:
        return FileWeights(lambda: load().reshape(wanted), STORED[tensor.dtype], wanted, None)
    stored = STORED.get(tensor.dtype)
    if stored is None or quant is None or quant.zero_point.any() or (quant.axis and quant.scale.size > 1):
        return FileWeights(lambda: real_numbers(tensor).reshape(wanted), "f32", wanted, None)
    scale = np.broadcast_to(quant.scale, (tensor.shape[0],)).astype(np.float32)
    return FileWeights(lambda: load().reshape(wanted), stored, wanted, scale)


def require_known(tensor: Tensor) -> None:
    """Raise DelegateFailed, a clause, for a constant whose real numbers are unknown."""
    if clause := obstacle(tensor):
        raise DelegateFailed(f"{clause}; kernels do not read it")

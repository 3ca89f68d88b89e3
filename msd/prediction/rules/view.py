"""What a check sees of an operation: its operands as the delegate sorts them, shapes, attributes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from msd.ir import NUMPY, Op, Tensor

Bhwc = tuple[int, int, int, int]
FLOATS = ("FLOAT32", "FLOAT16")


def halves_behind(tensor: Tensor) -> Tensor:
    """Return the float16 constant that a DEQUANTIZE makes `tensor` of, else `tensor`.

    Delegates take such a DEQUANTIZE away before they look at what reads it (`FP16GraphPartitionHelper` in
    tflite/delegates/utils.cc).
    """
    op = tensor.producer
    if op is not None and op.kind == "DEQUANTIZE" and op.operands:
        source = op.operands[0]
        if source.data is not None and source.dtype == "FLOAT16":
            return source
    return tensor


@dataclass(frozen=True)
class View:
    """One operation.

    `inputs` are its operands, None where an optional one is left out. `place` counts from 0.
    """

    place: int
    op: Op

    @property
    def kind(self) -> str:
        """The kind of operation."""
        return self.op.kind

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes, defaults included."""
        return self.op.attrs

    @cached_property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The operands; a constant that is only stored as float16 stands for itself."""
        return tuple(t if t is None else halves_behind(t) for t in self.op.inputs)

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:
        """The inputs that are there."""
        return tuple(t for t in self.inputs if t is not None)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The results."""
        return self.op.outputs

    @cached_property
    def runtime(self) -> tuple[Tensor, ...]:
        """The operands that are known only when the graph runs."""
        return tuple(t for t in self.operands if t.data is None)

    @cached_property
    def constants(self) -> tuple[Tensor, ...]:
        """The operands that the file holds."""
        return tuple(t for t in self.operands if t.data is not None)

    def input(self, position: int) -> Tensor | None:
        """Return the operand at `position`, None where there is none."""
        return self.inputs[position] if position < len(self.inputs) else None

    def is_runtime(self, position: int) -> bool:
        """Whether there is an operand at `position` that no file holds."""
        tensor = self.input(position)
        return tensor is not None and tensor.data is None


def numbers(tensor: Tensor | None) -> list[int] | None:
    """Return the values of a small constant of integers, flat; None where it is not one."""
    if tensor is None or tensor.data is None or NUMPY.get(tensor.dtype, "")[:3] != "int":
        return None
    return [int(n) for n in np.reshape(tensor.values(), -1)]


def from_left(shape: tuple[int, ...]) -> Bhwc:
    """Return the (batch, height, width, channels) that delegates make of a shape of up to 4 dimensions.

    (n) is n batches, (b, c), (b, w, c): `ExtractTensorShape` in
    tflite/delegates/gpu/common/model_builder_helper.cc.
    """
    b, h, w, c = {
        0: lambda: (1, 1, 1, 1),
        1: lambda: (shape[0], 1, 1, 1),
        2: lambda: (shape[0], 1, 1, shape[1]),
        3: lambda: (shape[0], 1, shape[1], shape[2]),
    }.get(len(shape), lambda: shape[:4])()
    return b, h, w, c


def from_right(shape: tuple[int, ...]) -> Bhwc:
    """Return the shape of rank 4 that NumPy's broadcasting makes of it."""
    b, h, w, c = (1, 1, 1, 1, *shape)[-4:]
    return b, h, w, c


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two make by NumPy's rule, None where they do not fit."""
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None


def has_scales(tensor: Tensor) -> int:
    """Return how many scales a tensor is stored with; 0 is not quantised."""
    return 0 if tensor.quant is None else int(tensor.quant.scale.size)


def listed(shape: tuple[int, ...]) -> str:
    """Return a shape as text: [1, 2, 3]."""
    return str(list(shape))

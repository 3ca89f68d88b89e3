"""An operator as a check sees it: its operands as the delegate classifies them, shapes, attributes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from msd.graph.ir import NUMPY, Op, Tensor

Bhwc = tuple[int, int, int, int]
FLOATS = ("FLOAT32", "FLOAT16")


def float16_source(tensor: Tensor) -> Tensor:
    """Return the float16 constant from which a DEQUANTIZE computes `tensor`, else `tensor`.

    Delegates remove such a DEQUANTIZE before they check its reader (`FP16GraphPartitionHelper` in
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
    """One operator, number `place`, from 0, of the file."""

    place: int
    op: Op

    @property
    def kind(self) -> str:
        """The kind of operator."""
        return self.op.kind

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes, including defaults."""
        return self.op.attrs

    @cached_property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The operands, None for an omitted one; a float16 constant replaces its DEQUANTIZE."""
        return tuple(t if t is None else float16_source(t) for t in self.op.inputs)

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:
        """The inputs without the omitted ones."""
        return tuple(t for t in self.inputs if t is not None)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The results."""
        return self.op.outputs

    @cached_property
    def runtime(self) -> tuple[Tensor, ...]:
        """The operands that are not constant."""
        return tuple(t for t in self.operands if t.data is None)

    @cached_property
    def constants(self) -> tuple[Tensor, ...]:
        """The constant operands."""
        return tuple(t for t in self.operands if t.data is not None)

    def input(self, position: int) -> Tensor | None:
        """Return the operand at `position`, None if there is none."""
        return self.inputs[position] if position < len(self.inputs) else None

    def is_runtime(self, position: int) -> bool:
        """Whether there is an operand at `position` that is not constant."""
        tensor = self.input(position)
        return tensor is not None and tensor.data is None


def numbers(tensor: Tensor | None) -> list[int] | None:
    """Return the values of a small integer constant as a flat list; None for any other tensor."""
    if tensor is None or tensor.data is None or NUMPY.get(tensor.dtype, "")[:3] != "int":
        return None
    return [int(n) for n in np.reshape(tensor.values(), -1)]


def from_left(shape: tuple[int, ...]) -> Bhwc:
    """Return the (batch, height, width, channels) of a shape with up to 4 dimensions, as delegates read it.

    One dimension is the batch, two are (batch, channels), three (batch, width, channels):
    `ExtractTensorShape` in tflite/delegates/gpu/common/model_builder_helper.cc.
    """
    b, h, w, c = {
        0: lambda: (1, 1, 1, 1),
        1: lambda: (shape[0], 1, 1, 1),
        2: lambda: (shape[0], 1, 1, shape[1]),
        3: lambda: (shape[0], 1, shape[1], shape[2]),
    }.get(len(shape), lambda: shape[:4])()
    return b, h, w, c


def from_right(shape: tuple[int, ...]) -> Bhwc:
    """Return the shape of rank 4 with leading ones, as NumPy broadcasts it."""
    b, h, w, c = (1, 1, 1, 1, *shape)[-4:]
    return b, h, w, c


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the broadcast of two shapes by NumPy's rule, None if they do not fit."""
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None


def scale_count(tensor: Tensor) -> int:
    """Return the number of a tensor's quantisation scales: 0 if it is not quantised."""
    return 0 if tensor.quant is None else int(tensor.quant.scale.size)


def missing_scale(tensor: Tensor) -> str:
    """Return in words how an integer tensor lacks a scale for each slice: it has none, or one a block."""
    block = tensor.quant.block_size if tensor.quant else 0
    return f"with a scale for each block of {block} numbers" if block else "without a scale"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text: [1, 2, 3]."""
    return str(list(shape))

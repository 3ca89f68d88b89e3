"""The constants that a GPU delegate stores: as floats, repacked, transformed for Winograd, or in int8.

The channels of every constant are padded to a multiple of four. TensorFlow Lite's delegate dequantises int8
when it loads a file (common/model_builder_helper.h, DequantizeConstantTensor). LiteRT's keeps int8 for fully
connected layers and 1x1 convolutions, which run as such, and nowhere else (ml_drift/common/
gpu_model_builder.cc, Convolution and GetFloatWeights). Its storage of int8 tables of EMBEDDING_LOOKUP is
unknown: they count as float.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.prediction.device import ConvSize, Device, slices
from msd.graph.prediction.fit import delegates_of, uses_winograd, weights_texture
from msd.graph.prediction.storage import Precision, element_bytes, tensor_bytes

BITS = {"INT8": 8, "UINT8": 8, "INT4": 4, "INT2": 2}
FLOATS = ("FLOAT32", "FLOAT16")


@dataclass(frozen=True)
class StoredConstant:
    """A constant operand of operator `op` on the GPU.

    `form` is its storage format: float16, float32, int8, int4 or int2. `winograd`: whether it is transformed
    to 36 values for each 4x4 tile. `texture`: width and height of each of the four textures that hold it,
    None outside textures.
    """

    op: int
    tensor: str
    form: str
    bytes: int
    winograd: bool = False
    texture: tuple[int, int] | None = None

    @property
    def piece(self) -> int:
        """Bytes of its largest single allocation."""
        return self.bytes // 4 if self.texture else self.bytes


def convolution(op: Op) -> ConvSize | None:
    """Return the size of a CONV_2D with constant weights; None for every other operator."""
    if op.kind != "CONV_2D" or len(op.operands) < 2 or not op.outputs:
        return None
    source, weights = op.operands[:2]
    result = op.outputs[0]
    known = weights.data is not None or _float16(weights) is not None
    if not known or any(len(t.shape) != 4 for t in (source, weights, result)):
        return None
    return ConvSize.of(source.shape, weights.shape, result.shape, op.attrs)


def kept_weights(graph: Graph, device: Device, precision: Precision) -> list[StoredConstant]:
    """Return every constant on the GPU, once for each operator that reads it."""
    return [stored for i, op in enumerate(graph.ops) for stored in _constants(i, op, device, precision)]


def _constants(index: int, op: Op, device: Device, precision: Precision) -> Iterator[StoredConstant]:
    form = "float16" if precision == "fp16" else "float32"
    element = element_bytes("FLOAT32", precision)
    if op.kind == "DEQUANTIZE":
        return
    for place, operand in enumerate(op.inputs):
        tensor = operand and constant(operand)
        if tensor is None or tensor.dtype not in (*FLOATS, *BITS):
            continue
        size = convolution(op) if place == 1 else None
        if place == 1 and tensor is operand and _stays(op, tensor, size, device):
            yield StoredConstant(index, tensor.name, tensor.dtype.lower(), _integers(tensor))
        elif size is not None:
            yield _filter(index, tensor, size, device, form, element)
        else:
            yield StoredConstant(index, tensor.name, form, _plain(op, tensor, place, element))


def constant(tensor: Tensor) -> Tensor | None:
    """Return the tensor if it is constant, or the constant it is dequantised from; else None."""
    if tensor.data is not None:
        return tensor
    maker = tensor.producer
    if maker is None or maker.kind != "DEQUANTIZE" or not maker.operands:
        return None
    return maker.operands[0] if maker.operands[0].data is not None else None


def _float16(tensor: Tensor) -> Tensor | None:
    """Return the float16 constant that a DEQUANTIZE reads: delegates use it and drop the operator."""
    stored = constant(tensor)
    return stored if stored is not None and stored is not tensor and stored.dtype == "FLOAT16" else None


def _stays(op: Op, tensor: Tensor, size: ConvSize | None, device: Device) -> bool:
    """Whether the weights keep the bit width that they have in the file."""
    keeps = all(delegate.keeps_integers for delegate in delegates_of(device))
    if not keeps or tensor.dtype not in BITS or not tensor.shape:
        return False
    return op.kind == "FULLY_CONNECTED" or (size is not None and size.plain and size.kernel == (1, 1))


def _integers(tensor: Tensor) -> int:
    """Return the bytes of a matrix of outputs by inputs plus a float32 scale for each output."""
    outputs, inputs = tensor.shape[0], math.prod(tensor.shape[1:])
    return slices(outputs) * slices(inputs) * 16 * BITS[tensor.dtype] // 8 + 4 * outputs


def _filter(
    index: int, tensor: Tensor, size: ConvSize, device: Device, form: str, element: int
) -> StoredConstant:
    width, height = weights_texture(device, size)
    texture = (width, height) if device.weights_storage == "texture_2d" else None
    return StoredConstant(
        op=index,
        tensor=tensor.name,
        form=form,
        bytes=width * height * 16 * element,
        winograd=uses_winograd(device, size),
        texture=texture,
    )


def _plain(op: Op, tensor: Tensor, place: int, element: int) -> int:
    """Return the bytes of a constant: filters are repacked by slices, vectors are a row of channels."""
    shape = tensor.shape
    if place == 1 and op.kind == "FULLY_CONNECTED" and len(shape) == 2:
        return slices(shape[0]) * slices(shape[1]) * 16 * element
    if place == 1 and op.kind in ("CONV_2D", "TRANSPOSE_CONV") and len(shape) == 4:
        return slices(shape[0]) * slices(shape[3]) * 16 * shape[1] * shape[2] * element
    return tensor_bytes(shape, element) if len(shape) > 1 else slices(tensor.size) * 4 * element

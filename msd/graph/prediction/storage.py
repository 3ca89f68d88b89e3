"""Where a GPU delegate stores computed tensors: in textures with four channels per pixel, or in a buffer.

Formulas are those of TensorFlow Lite's GPU delegate, which LiteRT's shares
(tensorflow/lite/delegates/gpu/common: task/tensor_desc.cc, CanCreateTensorWithShape and
UpdateToSupportedStorageType; gpu_model.cc).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from msd.graph.ir import NUMPY
from msd.graph.prediction.device import Device, Shape, slices, within

Precision = Literal["fp16", "fp32"]

MOST = 2**44
"""Bytes that no device has: the size of larger tensors, as in malicious files, is clamped to it."""


@dataclass(frozen=True)
class Stored:
    """A tensor on the GPU, of `width` x `height` x `layers` pixels; `fits` in the largest allocation."""

    storage: str
    width: int
    height: int
    layers: int
    bytes: int
    fits: bool


def bhwc(shape: Shape) -> tuple[int, int, int, int]:
    """Return a tensor's (batch, height, width, channels) as delegates see it; extra axes count as width.

    One axis is the batch, two are batch and channels, three are batch, width and channels
    (model_builder.cc).
    """
    if len(shape) > 3:
        return shape[0], shape[1], math.prod(shape[2:-1]), shape[-1]
    batch = shape[0] if shape else 1
    return batch, 1, shape[1] if len(shape) == 3 else 1, shape[-1] if len(shape) > 1 else 1


def element_bytes(dtype: str, precision: Precision) -> int:
    """Return the bytes of an element of TFLite's `dtype` on the GPU, where all floats have one precision."""
    if dtype.startswith(("FLOAT", "BFLOAT")):
        return 2 if precision == "fp16" else 4
    return np.dtype(NUMPY[dtype]).itemsize if dtype in NUMPY else 4


def tensor_bytes(shape: Shape, element: int) -> int:
    """Return the bytes of a tensor with its channels padded to a multiple of four; rows are not padded."""
    b, h, w, c = bhwc(shape)
    return max(0, min(b * h * w * slices(c) * 4 * element, MOST))


def store(shape: Shape, element: int, device: Device) -> Stored:
    """Return how `device` stores a tensor: in its usual storage, else an image buffer, else a buffer."""
    size = tensor_bytes(shape, element)
    storages = dict.fromkeys((device.activations_storage, "image_buffer", "buffer"))
    storage = next(s for s in storages if s == "buffer" or _is_possible(s, shape, device))
    width, height, layers = extent(shape, storage)
    fits = within(size, device.allocation_bytes)
    return Stored(storage=storage, width=width, height=height, layers=layers, bytes=size, fits=fits)


def extent(shape: Shape, storage: str) -> tuple[int, int, int]:
    """Return the width, height and layers, in pixels, of a tensor in a storage type."""
    b, h, w, c = bhwc(shape)
    if storage == "texture_2d":
        return w * b, h * slices(c), 1
    return (w * b, h, slices(c)) if storage == "texture_array" else (b * h * w * slices(c), 1, 1)


def _is_possible(storage: str, shape: Shape, device: Device) -> bool:
    width, height, layers = extent(shape, storage)
    if storage == "image_buffer":
        return within(width, device.image_buffer_pixels)
    most = (device.image2d_width, device.image2d_height, device.image2d_layers)
    return all(map(within, (width, height, layers), most))

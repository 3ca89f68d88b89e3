"""Whether a convolution fits a device, and how far it must be split to do so."""

from __future__ import annotations

import math
from dataclasses import replace

from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.device import ConvSize, Device, slices, within
from msd.graph.prediction.registry import delegates, find_delegate


def delegates_of(device: Device) -> tuple[Delegate, ...]:
    """Return the delegate that uses the device, or all of them; raises BadConfig for an unknown name."""
    return (find_delegate(device.delegate),) if device.delegate else tuple(delegates().values())


def uses_winograd(device: Device, conv: ConvSize) -> bool:
    """Whether the convolution runs as Winograd F(4x4, 3x3)."""
    return (
        conv.plain
        and conv.kernel == (3, 3)
        and slices(conv.inputs) >= device.winograd_input_slices
        and slices(conv.outputs) >= device.winograd_output_slices
        and any(delegate.worth_winograd(device, conv) for delegate in delegates_of(device))
    )


def weights_texture(device: Device, conv: ConvSize) -> tuple[int, int]:
    """Return (width, height) of the texture that holds the convolution's weights."""
    return slices(conv.outputs), slices(conv.inputs) * weights_rows(device, conv)


def weights_rows(device: Device, conv: ConvSize) -> int:
    """Return the number of rows of weights per input slice: 36 with Winograd."""
    return 36 if uses_winograd(device, conv) else conv.kernel[0] * conv.kernel[1]


def fits(device: Device, conv: ConvSize) -> bool:
    """Whether the convolution's weights are within all known limits of a texture."""
    if device.weights_storage == "buffer":
        return True
    width, height = weights_texture(device, conv)
    return within(width, device.image2d_width) and within(height, device.image2d_height)


def input_split(device: Device, conv: ConvSize) -> int | None:
    """Return the fewest equal slices of the input channels that all fit, or None."""
    parts = _equal_parts(conv.inputs)
    return next((n for n in parts if fits(device, replace(conv, inputs=conv.inputs // n))), None)


def output_split(device: Device, conv: ConvSize) -> int | None:
    """Return the fewest equal slices of the output channels that all fit, or None."""
    parts = _equal_parts(conv.outputs)
    return next((n for n in parts if fits(device, replace(conv, outputs=conv.outputs // n))), None)


def _equal_parts(channels: int) -> list[int]:
    """Return all numbers of equal parts that channels can be split into without sharing a pixel."""
    pixels, rest = divmod(channels, 4)
    small = [n for n in range(1, math.isqrt(max(pixels, 0)) + 1) if not rest and pixels % n == 0]
    return sorted({1, *small, *(pixels // n for n in small)})

"""The GPU that a model is made for: the limits that decide whether a convolution fits.

Image limits and the thresholds of the Winograd choice are those of TensorFlow Lite's GPU delegate
(tensorflow/lite/delegates/gpu/common: selectors/operation_selector.cc, tasks/conv_generic.cc) and of public
clinfo dumps; configs/devices lists the sources.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msd.errors import BadConfig

STORAGES = ("texture_2d", "buffer")
"""Where a device may keep the weights of convolutions."""


@dataclass(frozen=True)
class ConvSize:
    """A convolution as delegates see it: `height` x `width` of its result; `plain`: unstrided."""

    inputs: int
    outputs: int
    height: int
    width: int
    kernel: tuple[int, int]
    plain: bool = True


@dataclass(frozen=True)
class Device:
    """One GPU. Sizes in pixels of four channels; `winograd_*` are the least sizes for which it is chosen."""

    name: str = "adreno-740"
    weights_storage: str = "texture_2d"
    image2d_width: int = 16384
    image2d_height: int = 16384
    winograd_input_slices: int = 32
    winograd_output_slices: int = 32
    winograd_tiles: int = 64

    def uses_winograd(self, conv: ConvSize) -> bool:
        """Whether the convolution runs as Winograd F(4x4, 3x3)."""
        tiles = -(-conv.height // 4) * -(-conv.width // 4)
        return (
            conv.plain
            and conv.kernel == (3, 3)
            and slices(conv.inputs) >= self.winograd_input_slices
            and slices(conv.outputs) >= self.winograd_output_slices
            and tiles >= self.winograd_tiles
        )

    def weights_texture(self, conv: ConvSize) -> tuple[int, int]:
        """Return (width, height) of the texture that holds the convolution's weights."""
        rows = 36 if self.uses_winograd(conv) else conv.kernel[0] * conv.kernel[1]
        return slices(conv.outputs), slices(conv.inputs) * rows

    def fits(self, conv: ConvSize) -> bool:
        """Whether the convolution's weights fit into one texture."""
        if self.weights_storage == "buffer":
            return True
        width, height = self.weights_texture(conv)
        return width <= self.image2d_width and height <= self.image2d_height

    def input_split(self, conv: ConvSize) -> int | None:
        """Return the fewest equal slices of the input channels that all fit, or None."""
        parts = _whole_parts(conv.inputs)
        return next((n for n in parts if self.fits(replace(conv, inputs=conv.inputs // n))), None)

    def output_split(self, conv: ConvSize) -> int | None:
        """Return the fewest equal slices of the output channels that all fit, or None."""
        parts = _whole_parts(conv.outputs)
        return next((n for n in parts if self.fits(replace(conv, outputs=conv.outputs // n))), None)


def slices(channels: int) -> int:
    """How many pixels of four channels hold `channels`."""
    return -(-channels // 4)


def _whole_parts(channels: int) -> list[int]:
    """Into how many equal parts channels can be cut, none of which shares a pixel with another."""
    return [1] + [n for n in range(2, channels // 4 + 1) if channels % (4 * n) == 0]


@dataclass(frozen=True)
class Target:
    """What the rewrites aim at; `gelu_clip` is the M of clipped GELU (arXiv 2307.01193, section 3.1)."""

    device: Device = field(default_factory=Device)
    gelu_clip: float = 10.0


def read_device(path: Path) -> Device:
    """Return the device described in a TOML file; raises BadConfig naming the key at fault."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise BadConfig(f"{path} is not a device description: {problem}") from problem
    known = Device.__dataclass_fields__
    if unknown := set(table) - set(known):
        raise BadConfig(f"{path} has no use for {sorted(unknown)}; known keys are {sorted(known)}")
    for key, value in table.items():
        wanted = type(getattr(Device(), key))
        if type(value) is not wanted or (wanted is int and value < 1):
            what = "a positive integer" if wanted is int else "a string"
            raise BadConfig(f"{path}: {key} is {value!r}; {what} was expected")
    device = Device(**{"name": path.stem, **table})
    if device.weights_storage not in STORAGES:
        raise BadConfig(
            f"{path}: weights_storage is {device.weights_storage!r}; choose from {list(STORAGES)}"
        )
    return device

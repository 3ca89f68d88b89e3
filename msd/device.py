"""The GPU that a model is made for: the limits that decide whether a convolution fits.

Image limits and the thresholds of the Winograd choice are those of TensorFlow Lite's GPU delegate
(tensorflow/lite/delegates/gpu/common: selectors/operation_selector.cc, tasks/conv_generic.cc) and of public
clinfo dumps; docs/delegates.md lists the sources.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msd.errors import BadConfig


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
    source: str = ""

    def uses_winograd(
        self, inputs: int, outputs: int, height: int, width: int, kernel: tuple[int, int]
    ) -> bool:
        """Whether a 3x3 stride-1 convolution of these sizes runs as Winograd F(4x4, 3x3)."""
        tiles = -(-height // 4) * -(-width // 4)
        return (
            kernel == (3, 3)
            and slices(inputs) >= self.winograd_input_slices
            and slices(outputs) >= self.winograd_output_slices
            and tiles >= self.winograd_tiles
        )

    def weights_texture(
        self, inputs: int, outputs: int, kernel: tuple[int, int], winograd: bool
    ) -> tuple[int, int]:
        """Return (width, height) of the texture that holds a convolution's weights."""
        return slices(outputs), slices(inputs) * (36 if winograd else kernel[0] * kernel[1])

    def fits(
        self, inputs: int, outputs: int, height: int, width: int, kernel: tuple[int, int], plain: bool
    ) -> bool:
        """Whether the weights of a conv over `height` x `width` fit; `plain`: no stride or dilation."""
        if self.weights_storage != "texture_2d":
            return True
        winograd = plain and self.uses_winograd(inputs, outputs, height, width, kernel)
        texture = self.weights_texture(inputs, outputs, kernel, winograd)
        return texture[0] <= self.image2d_width and texture[1] <= self.image2d_height


def slices(channels: int) -> int:
    """How many pixels of four channels hold `channels`."""
    return -(-channels // 4)


@dataclass(frozen=True)
class Target:
    """What the rewrites aim at; `gelu_clip` is the M of clipped GELU (arXiv 2307.01193, section 3.1)."""

    device: Device = field(default_factory=Device)
    gelu_clip: float = 10.0


def read_device(path: Path) -> Device:
    """Return the device described in a TOML file; raises BadConfig naming the key at fault."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise BadConfig(f"{path} is not a device description: {problem}") from problem
    known = Device.__dataclass_fields__
    if unknown := set(table) - set(known):
        raise BadConfig(f"{path} has no use for {sorted(unknown)}; known keys are {sorted(known)}")
    for key, value in table.items():
        wanted = type(getattr(Device(), key))
        if not isinstance(value, wanted):
            raise BadConfig(f"{path}: {key} is {value!r}; a {wanted.__name__} was expected")
    return Device(**table)

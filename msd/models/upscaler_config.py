"""The configurations of upscalers: Real-ESRGAN's large network and its compact one.

Both read a tile of an image, so that memory is bounded whatever the image's size
(msd/run/runtime/upscale.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msd.errors import BadCheckpoint
from msd.models.config import Settings
from msd.models.networks import Size
from msd.models.trace import InputSpecs

TILE = 192
"""The pixels along the side of a tile. With 32 shared with the next one, three make 512 and six 992."""

SCALES = (2, 4)
"""How many times larger images may become along each side."""

SLOPE = 0.2
"""Of a large network's leaky ReLUs."""

SHARE = 0.2
"""The share of a large network's block in the sum with its input."""


@dataclass(frozen=True)
class RrdbConfig:
    """The generator of ESRGAN (Wang et al., 2018, arXiv 1809.00219) as Real-ESRGAN uses it.

    `features` channels wide, with `blocks` of three dense blocks, whose layers add `growth` channels each.
    """

    scale: int
    features: int
    growth: int
    blocks: int

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `image`, a tile."""
        return _inputs(size)

    def last_modules(self) -> tuple[str, ...]:
        """Return the last block, which the weights of such a network have."""
        return (f"body.{self.blocks - 1}.rdb3.conv5",)

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> Any:
        """Raise BadCheckpoint: an upscaler comes from files of its own."""
        raise _of_its_own(folder)


@dataclass(frozen=True)
class CompactConfig:
    """Real-ESRGAN's SRVGGNetCompact: `convs` convolutions between the first and the last, each with PReLU."""

    scale: int
    features: int
    convs: int

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `image`, a tile."""
        return _inputs(size)

    def last_modules(self) -> tuple[str, ...]:
        """Return the last layer, which the weights of such a network have."""
        return (f"body.{2 * self.convs + 2}",)

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> Any:
        """Raise BadCheckpoint: an upscaler comes from files of its own."""
        raise _of_its_own(folder)


def _of_its_own(folder: str) -> BadCheckpoint:
    return BadCheckpoint(f"the folder {folder} is not read with a checkpoint; give --upscaler its file")


def _inputs(size: Size) -> InputSpecs:
    """Return the interface of a tile: as large as the image where that is smaller, and even."""
    height, width = (min(TILE, pixels + pixels % 2) for pixels in size.pixels)
    return {"image": ((1, height, width, 3), "float32")}

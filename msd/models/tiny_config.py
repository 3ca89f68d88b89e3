"""The configurations of a tiny autoencoder, read from the config.json of diffusers' AutoencoderTiny."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msd.models import settings
from msd.models.config import Settings
from msd.models.networks import Size
from msd.models.trace import InputSpecs


@dataclass(frozen=True)
class TinyEncoderConfig:
    """The encoding half; `blocks` has the residual blocks of each level, that of the image first.

    Every level is `width` channels wide, and has half the height and width of the one before. Latents are the
    output times `scaling_factor`, which the network leaves to its caller.
    """

    in_channels: int
    latent_channels: int
    width: int
    blocks: tuple[int, ...]
    scaling_factor: float

    @property
    def scale(self) -> int:
        """The number of pixels along the side of a latent cell."""
        return int(2 ** (len(self.blocks) - 1))

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `image`."""
        return {"image": ((size.batch, *size.pixels, self.in_channels), "float32")}

    def last_modules(self) -> tuple[str, ...]:
        """Return the last layer, which the weights of such a network have."""
        return (f"encoder.layers.{len(self.blocks) + sum(self.blocks)}",)

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> TinyEncoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = _reader(config, folder)
        width, blocks = _levels(read, "encoder", (1, 3, 3, 3))
        return TinyEncoderConfig(
            in_channels=read.count("in_channels", 3),
            latent_channels=read.count("latent_channels", 4),
            width=width,
            blocks=blocks,
            scaling_factor=read.positive("scaling_factor", 1.0),
        )


@dataclass(frozen=True)
class TinyDecoderConfig:
    """The decoding half; `blocks` has the residual blocks of each level, that of the latent first.

    Every level is `width` channels wide, and has `upsampling` times the height and width of the one before.
    """

    latent_channels: int
    out_channels: int
    width: int
    blocks: tuple[int, ...]
    upsampling: int
    scaling_factor: float

    @property
    def scale(self) -> int:
        """The number of pixels along the side of a latent cell."""
        return int(self.upsampling ** (len(self.blocks) - 1))

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `latent`."""
        return {"latent": ((size.batch, size.rows, size.columns, self.latent_channels), "float32")}

    def last_modules(self) -> tuple[str, ...]:
        """Return the last layer, which the weights of such a network have."""
        return (f"decoder.layers.{2 * len(self.blocks) + sum(self.blocks)}",)

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> TinyDecoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = _reader(config, folder)
        width, blocks = _levels(read, "decoder", (3, 3, 3, 1))
        return TinyDecoderConfig(
            latent_channels=read.count("latent_channels", 4),
            out_channels=read.count("out_channels", 3),
            width=width,
            blocks=blocks,
            upsampling=read.count("upsampling_scaling_factor", 2, most=8),
            scaling_factor=read.positive("scaling_factor", 1.0),
        )


def _reader(config: Settings, folder: str) -> settings.Reader:
    read = settings.Reader(folder, config)
    read.refuse_other(TINY_ONLY)
    read.refuse_unknown({*TINY_ONLY, *TINY_READ, *TINY_UNUSED})
    return read


def _levels(read: settings.Reader, half: str, default: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return the width of all levels, and the number of residual blocks of each."""
    blocks_key, widths_key = f"num_{half}_blocks", f"{half}_block_out_channels"
    blocks = read.counts(blocks_key, default, most=settings.MOST_LAYERS)
    widths = read.counts(widths_key, (64, 64, 64, 64))
    if len(blocks) != len(widths):
        read.wrong(blocks_key, list(blocks), f"{widths_key} has {len(widths)} levels")
    if len(set(widths)) != 1:
        read.wrong(widths_key, list(widths), "diffusers' AutoencoderTiny works with equal widths only")
    return widths[0], blocks


TINY_ONLY: dict[str, tuple[Any, ...]] = {
    "_class_name": ("AutoencoderTiny",),
    "act_fn": ("relu",),
    "shift_factor": (0.0, None),
    "upsample_fn": ("nearest",),
}
"""The only values that we can build, the default first."""

TINY_READ = (
    "decoder_block_out_channels",
    "encoder_block_out_channels",
    "in_channels",
    "latent_channels",
    "num_decoder_blocks",
    "num_encoder_blocks",
    "out_channels",
    "scaling_factor",
    "upsampling_scaling_factor",
)
TINY_UNUSED = ("block_out_channels", "force_upcast", "latent_magnitude", "latent_shift")
"""Without effect on what pipelines compute: `latent_magnitude` and `latent_shift` are for stored latents."""

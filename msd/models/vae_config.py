"""The configurations of both halves of Stable Diffusion's autoencoder, read from diffusers' config.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msd.models import settings
from msd.models.config import Settings
from msd.models.networks import Size
from msd.models.trace import InputSpecs


@dataclass(frozen=True)
class VaeEncoderConfig:
    """The encoding half of an AutoencoderKL; `channels` from the full resolution to that of the latent.

    Latents are samples times `scaling_factor`, which the network leaves to its caller
    (msd/run/runtime/image_encoder.py).
    """

    in_channels: int
    latent_channels: int
    channels: tuple[int, ...]
    resnets: int
    groups: int
    scaling_factor: float
    quant_conv: bool
    mid_attention: bool

    @property
    def scale(self) -> int:
        """The number of pixels along the side of a latent cell."""
        return int(2 ** (len(self.channels) - 1))

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `image`."""
        return {"image": ((size.batch, *size.pixels, self.in_channels), "float32")}

    def last_modules(self) -> tuple[str, ...]:
        """Return the last block of each level, which the weights of such a network have."""
        return tuple(f"encoder.down_blocks.{i}.resnets.{self.resnets - 1}" for i in range(len(self.channels)))

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> VaeEncoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = _reader(config, folder)
        return VaeEncoderConfig(
            in_channels=read.count("in_channels", 3),
            channels=_channels(read, "down_block_types", "DownEncoderBlock2D"),
            quant_conv=read.flag("use_quant_conv", True),
            **_of_both(read),
        )


@dataclass(frozen=True)
class VaeDecoderConfig:
    """The decoding half of an AutoencoderKL; `channels` from the full resolution to that of the latent."""

    latent_channels: int
    out_channels: int
    channels: tuple[int, ...]
    resnets: int
    groups: int
    scaling_factor: float
    post_quant_conv: bool
    mid_attention: bool

    @property
    def scale(self) -> int:
        """The number of pixels along the side of a latent cell."""
        return int(2 ** (len(self.channels) - 1))

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `latent`."""
        return {"latent": ((size.batch, size.rows, size.columns, self.latent_channels), "float32")}

    def last_modules(self) -> tuple[str, ...]:
        """Return the last block of each level, which the weights of such a network have."""
        return tuple(f"decoder.up_blocks.{i}.resnets.{self.resnets}" for i in range(len(self.channels)))

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> VaeDecoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = _reader(config, folder)
        return VaeDecoderConfig(
            out_channels=read.count("out_channels", 3),
            channels=_channels(read, "up_block_types", "UpDecoderBlock2D"),
            post_quant_conv=read.flag("use_post_quant_conv", True),
            **_of_both(read),
        )


def _reader(config: Settings, folder: str) -> settings.Reader:
    """Return a reader of vae/config.json, in which every key is known and has a value that we can build."""
    read = settings.Reader(folder, config)
    read.refuse_other(VAE_ONLY)
    read.refuse_unknown({*VAE_ONLY, *VAE_READ, *VAE_UNUSED})
    return read


def _of_both(read: settings.Reader) -> dict[str, Any]:
    """Return the fields that have the same values in both halves."""
    return {
        "latent_channels": read.count("latent_channels", 4),
        "resnets": read.count("layers_per_block", 1, most=settings.MOST_LAYERS),
        "groups": read.count("norm_num_groups", 32),
        "scaling_factor": read.positive("scaling_factor", 0.18215),
        "mid_attention": read.flag("mid_block_add_attention", True),
    }


def _channels(read: settings.Reader, key: str, block: str) -> tuple[int, ...]:
    """Return the channels of each level; the blocks that `key` lists must all be of the kind `block`."""
    channels = read.counts("block_out_channels", (64,))
    read.blocks(key, (block,), len(channels), block)
    groups = read.count("norm_num_groups", 32)
    for width in channels:
        read.require_multiple("block_out_channels", width, "norm_num_groups", groups)
    return channels


VAE_ONLY: dict[str, tuple[Any, ...]] = {
    "_class_name": ("AutoencoderKL", "AutoencoderTiny"),
    "act_fn": ("silu", "swish"),
    "latents_mean": (None,),
    "latents_std": (None,),
    "shift_factor": (None, 0),
}
VAE_READ = (
    "block_out_channels",
    "down_block_types",
    "in_channels",
    "latent_channels",
    "layers_per_block",
    "mid_block_add_attention",
    "norm_num_groups",
    "out_channels",
    "scaling_factor",
    "up_block_types",
    "use_post_quant_conv",
    "use_quant_conv",
)
VAE_UNUSED = ("force_upcast", "sample_size")

"""What the three networks of a Stable Diffusion are made of, read from the configurations that diffusers writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TextEncoderConfig:
    """A CLIP text transformer (Radford et al., 2021, arXiv:2103.00020)."""

    vocabulary: int
    length: int
    width: int
    hidden: int
    layers: int
    heads: int
    activation: str
    epsilon: float


@dataclass(frozen=True)
class UNetConfig:
    """A U-Net conditioned on text (Rombach et al., 2022, arXiv:2112.10752); tuples have one entry a level."""

    in_channels: int
    out_channels: int
    channels: tuple[int, ...]
    resnets: tuple[int, ...]
    down_attention: tuple[bool, ...]
    up_attention: tuple[bool, ...]
    heads: tuple[int, ...]
    transformers: tuple[int, ...]
    context_width: int
    linear_projection: bool
    groups: int
    epsilon: float
    time_width: int
    guidance_width: int | None
    cosine_first: bool
    frequency_shift: float


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

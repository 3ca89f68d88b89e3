"""Passes of a U-Net: with guidance in two of them, with the scale as an input, or plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from msd.distill.levels import Levels
from msd.distill.networks import Networks
from msd.runtime.guidance import EMBEDDING_FACTOR
from msd.runtime.timestep import frequencies


@dataclass(frozen=True)
class Points:
    """Latents (B, C, H, W) at timesteps (B,), ids (B, tokens) of prompts and scales (B,) of guidance.

    `ends` (B, C, H, W) are the clean latents to which the guided teacher leads from there, if they are known.
    """

    latents: Any
    timesteps: Any
    ids: Any
    scales: Any
    ends: Any = None

    def moved(self, latents: Any, timesteps: Any) -> Points:
        """Return other latents at other timesteps of the same prompts."""
        return replace(self, latents=latents, timesteps=timesteps)


class PointSource(Protocol):
    """Where points come from: trajectories or pictures.

    `ids` (N + 1, tokens) are those of all prompts, then of the empty one; `timesteps` are those of the finest
    steps, noisiest first, and CLEAN.
    """

    @property
    def ids(self) -> Any: ...

    @property
    def timesteps(self) -> Sequence[int]: ...

    def on_grid(self, random: Any, size: int, steps: int) -> tuple[Points, Any]:
        """Return random points at the timesteps of `steps` steps, and the number of each one's step (B,)."""

    def anywhere(self, random: Any, size: int, among: Sequence[int] | None = None) -> Points:
        """Return random points at any timesteps, or `among` these."""


def output_of(unet: Any, points: Points, context: Any) -> Any:
    """Return what a U-Net says at points, float32 (B, C, H, W); it gets their scales if it takes them."""
    width = _config(unet).time_cond_proj_dim
    condition = None if width is None else scale_embedding(points.scales, width)
    latents, timesteps = points.latents, points.timesteps
    return unet(latents, timesteps, context, timestep_cond=condition, return_dict=False)[0].float()


def guided_output(networks: Networks, points: Points, empty: Any) -> tuple[Any, Any]:
    """Return the clean latents and the noise that the guided U-Net finds at points, (B, C, H, W) each.

    Ho and Salimans (2022, arXiv 2207.12598); `empty` are the ids of the empty prompt (1, tokens), for the
    pass that is made where a scale is not 1.
    """
    ids, scales = points.ids, points.scales
    if bool((scales == 1).all()):
        output = output_of(networks.unet, points, networks.context(ids))
    else:
        twice = points.moved(points.latents.repeat(2, 1, 1, 1), points.timesteps.repeat(2))
        context = networks.context(torch.cat([empty.to(ids).expand_as(ids), ids]))
        away, towards = output_of(networks.unet, twice, context).chunk(2)
        output = away + scales.view(-1, 1, 1, 1) * (towards - away)
    return found(networks.levels, networks.prediction, points, output)


def found(levels: Levels, prediction: str, points: Points, output: Any) -> tuple[Any, Any]:
    """Return the clean latents and the noise that an output at points means."""
    clean = levels.clean(prediction, points.timesteps, points.latents, output)
    return clean, levels.noise(prediction, points.timesteps, points.latents, output)


def scale_embedding(scales: Any, width: int) -> Any:
    """Return float32 (B, width) for a U-Net that takes the scale: sines, then cosines, of scale − 1.

    Diffusers' `get_guidance_scale_embedding`, for scales of (B,).
    """
    rates = torch.from_numpy(frequencies(width, shift=1)).to(scales.device)
    angles = EMBEDDING_FACTOR * (scales.float() - 1)[:, None] * rates
    return torch.nn.functional.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, width % 2))


def _config(unet: Any) -> Any:
    """Return a U-Net's configuration, also where accelerate has wrapped it for several processes."""
    return getattr(unet, "module", unet).config

"""Passes of a U-Net: with guidance in two of them, with the scale as an input, or plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import torch

from msd.models.families.stable_diffusion import GUIDANCE
from msd.run.runtime.guidance import EMBEDDING_FACTOR
from msd.run.runtime.timestep import frequencies
from msd.train.distill.levels import Levels
from msd.train.distill.networks import Networks
from msd.train.pytorch.modules import Tensors, predict


@dataclass(frozen=True)
class Points:
    """Latents (B, C, H, W) at timesteps (B,), ids (B, tokens) of prompts and scales (B,) of guidance.

    Where they are known: `ends` (B, C, H, W) are the clean latents to which the guided teacher leads from
    there, `conditions` what else the U-Net takes, B rows of each input by its name, and `step` (B,) each
    one's step.
    """

    latents: Any
    timesteps: Any
    ids: Any
    scales: Any
    ends: Any = None
    step: Any = None
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, Any]:
        """All that is known of the points, by name."""
        return {**self._own, **self.conditions}

    def each(self, change: Callable[[Any], Any]) -> Points:
        """Return the points with every tensor changed."""
        conditions = {name: change(tensor) for name, tensor in self.conditions.items()}
        return replace(
            self, conditions=conditions, **{name: change(tensor) for name, tensor in self._own.items()}
        )

    def moved(self, latents: Any, timesteps: Any) -> Points:
        """Return other latents at other timesteps of the same prompts."""
        return replace(self, latents=latents, timesteps=timesteps)

    @property
    def _own(self) -> dict[str, Any]:
        known = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        del known["conditions"]
        return known


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


def output_of(unet: Any, points: Points, conditions: Tensors) -> Any:
    """Return a U-Net's predictions at points, float32 (B, C, H, W); it gets their scales if it takes them."""
    width = _config(unet).time_cond_proj_dim
    scales = {} if width is None else {GUIDANCE: scale_embedding(points.scales, width)}
    return predict(unet, points.latents, points.timesteps, {**conditions, **scales}).float()


def guided_output(networks: Networks, points: Points, empty: Tensors | None) -> tuple[Any, Any]:
    """Return the clean latents and the noise that the guided U-Net finds at points, (B, C, H, W) each.

    Ho and Salimans (2022, arXiv 2207.12598); points have their conditions, and `empty` are those of the empty
    prompt, one row. None: one pass, without guidance.
    """
    if empty is None:
        output = output_of(networks.unet, points, points.conditions)
    else:
        twice = points.moved(points.latents.repeat(2, 1, 1, 1), points.timesteps.repeat(2))
        both = {n: torch.cat([empty[n].expand_as(each), each]) for n, each in points.conditions.items()}
        away, towards = output_of(networks.unet, twice, both).chunk(2)
        output = away + points.scales.view(-1, 1, 1, 1) * (towards - away)
    return clean_and_noise(networks.levels, networks.prediction, points, output)


def sent(tensor: Any, device: str) -> Any:
    """Return a tensor of the CPU on a device; a GPU copies it when it comes to it, and nobody waits."""
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def clean_and_noise(levels: Levels, prediction: str, points: Points, output: Any) -> tuple[Any, Any]:
    """Return the clean latents and the noise that an output at points means."""
    clean = levels.clean(prediction, points.timesteps, points.latents, output)
    return clean, levels.noise(prediction, points.timesteps, points.latents, output)


def scale_embedding(scales: Any, width: int) -> Any:
    """Return float32 (B, width) for a U-Net that takes the scale: sines, then cosines, of scale − 1.

    Diffusers' `get_guidance_scale_embedding`, for scales of (B,).
    """
    angles = EMBEDDING_FACTOR * (scales.float() - 1)[:, None] * _rates(width, scales.device)
    return torch.nn.functional.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, width % 2))


@lru_cache
def _rates(width: int, device: Any) -> Any:
    """Return the frequencies of a scale's embedding, which stay on a device: copies cannot be recorded."""
    return torch.from_numpy(frequencies(width, shift=1)).to(device)


def _config(unet: Any) -> Any:
    """Return a U-Net's configuration, also where accelerate has wrapped it for several processes."""
    return getattr(unet, "module", unet).config

"""Latent consistency models: Luo et al. (2023, arXiv 2310.04378), multistep sampling as in diffusers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.diffusion import Diffusion, impossible, settings_in
from msd.run.runtime.step import Step, StepTable, first_step, require_strength

SIGMA_DATA = 0.5
DEFAULTS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
"""The defaults in which diffusers' LCMScheduler differs from the other schedulers."""


@dataclass(frozen=True)
class Lcm:
    """The settings in a scheduler_config.json, with the defaults of diffusers' LCMScheduler.

    An image to begin with shortens the schedule by its strength. Diffusers' StableDiffusionImg2ImgPipeline
    drops steps; LatentConsistencyModelImg2ImgPipeline moves all steps closer to the image, which is
    `keeps_all_steps` here.
    """

    diffusion: Diffusion = field(default_factory=lambda: Diffusion.from_config(DEFAULTS))
    original_inference_steps: int = 50
    timestep_scaling: float = 10.0
    clip_sample: bool = False
    clip_sample_range: float = 1.0
    keeps_all_steps: bool = False

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Lcm:
        """Return LCM with a configuration's settings, whatever class wrote it; others are ignored."""
        return Lcm(Diffusion.from_config({**DEFAULTS, **config}), **settings_in(Lcm, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        if self.keeps_all_steps and strength is not None:
            require_strength(strength)
            timesteps = self.timesteps(steps, strength)
        else:
            timesteps = self.timesteps(steps)[first_step(steps, strength) :]
        alphas = self.diffusion.alphas()
        next_alphas = [*(float(alphas[t]) for t in timesteps[1:]), None]
        return StepTable(
            [self._step(t, float(alphas[t]), f) for t, f in zip(timesteps, next_alphas, strict=True)]
        )

    def timesteps(self, steps: int, strength: float = 1.0) -> list[int]:
        """Return the training timesteps that `steps` steps visit, noisiest first; raises BadConfig."""
        return distilled_timesteps(self.diffusion, self.original_inference_steps, steps, strength)

    def _step(self, timestep: int, alpha: float, next_alpha: float | None) -> Step:
        """Return a step to the next timestep's noise; the last step ends without any."""
        (clean_x, clean_o), _ = self.diffusion.clean_and_noise(alpha, timestep)
        scaled = timestep * self.timestep_scaling
        skip = SIGMA_DATA**2 / (scaled**2 + SIGMA_DATA**2)
        out = scaled / math.sqrt(scaled**2 + SIGMA_DATA**2)
        there = 1.0 if next_alpha is None else math.sqrt(next_alpha)
        return Step(
            timestep=timestep,
            latent=there * skip,
            clean=there * out,
            clean_latent=clean_x,
            clean_output=clean_o,
            clip=self.clip_sample_range if self.clip_sample else None,
            noise=0.0 if next_alpha is None else math.sqrt(1 - next_alpha),
            signal=math.sqrt(alpha),
            sigma=math.sqrt(1 - alpha),
        )


def distilled_timesteps(diffusion: Diffusion, original: int, steps: int, strength: float = 1.0) -> list[int]:
    """Return `steps` of the `original` timesteps that a model was distilled for, noisiest first.

    A `strength` below 1 leaves out the noisiest of the original ones. Raises BadConfig where there are fewer
    than `steps`.
    """
    diffusion.require_steps(steps)
    total, kept = diffusion.num_train_timesteps, int(original * strength)
    if not 1 <= original <= total:
        raise BadConfig(f"original_inference_steps {original} should be from 1 to {total}")
    if steps > original:
        raise BadConfig(f"{impossible(steps)}: this model was distilled for up to {original}")
    if steps > kept:
        raise BadConfig(
            f"{impossible(steps)} at strength {strength:g}, which leaves {kept} of the {original}"
            " that this model was distilled for"
        )
    distilled = np.arange(kept, 0, -1) * (total // original) - 1
    indices = np.floor(np.linspace(0, kept, steps, endpoint=False)).astype(int)
    return [int(t) for t in distilled[indices]]

"""Latent consistency models: Luo et al. (2023, arXiv 2310.04378), multistep sampling as in diffusers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.runtime.diffusion import Diffusion, settings_in
from msd.runtime.step import Step, StepTable

SIGMA_DATA = 0.5
DEFAULTS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
"""The defaults in which diffusers' LCMScheduler differs from the other schedulers."""


@dataclass(frozen=True)
class Lcm:
    """The settings in a scheduler_config.json, with the defaults of diffusers' LCMScheduler."""

    diffusion: Diffusion = field(default_factory=lambda: Diffusion.from_config(DEFAULTS))
    original_inference_steps: int = 50
    timestep_scaling: float = 10.0
    clip_sample: bool = False
    clip_sample_range: float = 1.0

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Lcm:
        """Return LCM with a configuration's settings, whatever class wrote it; others are ignored."""
        return Lcm(Diffusion.from_config({**DEFAULTS, **config}), **settings_in(Lcm, config))

    def table(self, steps: int) -> StepTable:
        """Return the `steps` steps. Raises BadConfig for more than the model was distilled for."""
        self.diffusion.require_steps(steps)
        timesteps, alphas = self.timesteps(steps), self.diffusion.alphas()
        next_alphas = [*(float(alphas[t]) for t in timesteps[1:]), None]
        return StepTable(
            [self._step(t, float(alphas[t]), f) for t, f in zip(timesteps, next_alphas, strict=True)]
        )

    def timesteps(self, steps: int) -> list[int]:
        """Return the training timesteps that `steps` steps visit, noisiest first; raises BadConfig."""
        original, total = self.original_inference_steps, self.diffusion.num_train_timesteps
        if not 1 <= original <= total:
            raise BadConfig(f"original_inference_steps {original} should be from 1 to {total}")
        if steps > original:
            raise BadConfig(f"{steps} steps are impossible: this model was distilled for up to {original}")
        distilled = np.arange(original, 0, -1) * (total // original) - 1
        return [
            int(t) for t in distilled[np.floor(np.linspace(0, original, steps, endpoint=False)).astype(int)]
        ]

    def _step(self, timestep: int, alpha: float, next_alpha: float | None) -> Step:
        """Return a step to the next timestep's noise; the last step ends without any."""
        (clean_x, clean_o), _ = self.diffusion.clean_and_noise(alpha, timestep)
        scaled = timestep * self.timestep_scaling
        skip = SIGMA_DATA**2 / (scaled**2 + SIGMA_DATA**2)
        out = scaled / math.sqrt(scaled**2 + SIGMA_DATA**2)
        signal = 1.0 if next_alpha is None else math.sqrt(next_alpha)
        return Step(
            timestep,
            signal * skip,
            clean=signal * out,
            clean_latent=clean_x,
            clean_output=clean_o,
            clip=self.clip_sample_range if self.clip_sample else None,
            noise=0.0 if next_alpha is None else math.sqrt(1 - next_alpha),
        )

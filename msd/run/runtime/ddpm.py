"""DDPM's ancestral sampling: Ho, Jain and Abbeel (2020, arXiv 2006.11239), formulas (6) and (7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msd.run.runtime.diffusion import Diffusion, require, settings_in
from msd.run.runtime.spacing import SPACINGS, rounded_timesteps, visited
from msd.run.runtime.step import Step, StepTable, first_step, step_table

LEAST_VARIANCE = 1e-20
VARIANCES = ("fixed_small", "fixed_small_log", "fixed_large")
"""The first also stands for null, which diffusers' DPM-Solvers save."""


@dataclass(frozen=True)
class Ddpm:
    """The settings in a scheduler_config.json, with the defaults of diffusers' DDPMScheduler."""

    diffusion: Diffusion = field(default_factory=Diffusion)
    variance_type: str | None = "fixed_small"
    clip_sample: bool = True
    clip_sample_range: float = 1.0
    timestep_spacing: str = "leading"
    steps_offset: int = 0

    def __post_init__(self) -> None:
        require("timestep_spacing", self.timestep_spacing, SPACINGS)
        require("variance_type", self.variance_type or VARIANCES[0], VARIANCES)

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Ddpm:
        """Return the method with a configuration's settings, whatever class wrote it; others are ignored."""
        return Ddpm(Diffusion.from_config(config), **settings_in(Ddpm, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        self.diffusion.require_steps(steps)
        total = self.diffusion.num_train_timesteps
        timesteps = rounded_timesteps(visited(self.timestep_spacing, total, steps, self.steps_offset))
        alphas = self.diffusion.alphas()
        ends = [*(float(alphas[t]) for t in timesteps[1:]), 1.0]
        pairs = [*zip(timesteps, ends, strict=True)][first_step(steps, strength) :]
        return step_table([self._step(t, float(alphas[t]), end) for t, end in pairs])

    def _step(self, timestep: int, alpha: float, end: float) -> Step:
        (clean_x, clean_o), _ = self.diffusion.clean_and_noise(alpha, timestep)
        beta = 1 - alpha / end
        variance = beta if self.variance_type == "fixed_large" else (1 - end) / (1 - alpha) * beta
        return Step(
            timestep=timestep,
            latent=math.sqrt(alpha / end) * (1 - end) / (1 - alpha),
            clean=math.sqrt(end) * beta / (1 - alpha),
            clean_latent=clean_x,
            clean_output=clean_o,
            clip=self.clip_sample_range if self.clip_sample else None,
            noise=math.sqrt(max(variance, LEAST_VARIANCE)) if timestep > 0 else 0.0,
            signal=math.sqrt(alpha),
            sigma=math.sqrt(1 - alpha),
        )

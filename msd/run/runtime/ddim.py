"""DDIM: Song, Meng and Ermon, "Denoising Diffusion Implicit Models" (2020, arXiv 2010.02502).

Formula (12) with eta = 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msd.run.runtime.diffusion import Diffusion, require, settings_in
from msd.run.runtime.spacing import SPACINGS, rounded_timesteps, visited
from msd.run.runtime.step import Step, StepTable, first_step


@dataclass(frozen=True)
class Ddim:
    """DDIM's settings in a scheduler_config.json, with the defaults of diffusers' DDIMScheduler."""

    diffusion: Diffusion = field(default_factory=Diffusion)
    clip_sample: bool = True
    clip_sample_range: float = 1.0
    set_alpha_to_one: bool = True
    steps_offset: int = 0
    timestep_spacing: str = "leading"

    def __post_init__(self) -> None:
        require("timestep_spacing", self.timestep_spacing, SPACINGS)

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Ddim:
        """Return DDIM with a configuration's settings, whatever class wrote it; others are ignored."""
        return Ddim(Diffusion.from_config(config), **settings_in(Ddim, config))

    def timesteps(self, steps: int) -> list[int]:
        """Return the training timesteps that `steps` steps visit, noisiest first; raises BadConfig."""
        self.diffusion.require_steps(steps)
        total = self.diffusion.num_train_timesteps
        return rounded_timesteps(visited(self.timestep_spacing, total, steps, self.steps_offset))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        timesteps, alphas = self.timesteps(steps), self.diffusion.alphas()
        last = 1.0 if self.set_alpha_to_one else float(alphas[0])
        stride = self.diffusion.num_train_timesteps // steps
        next_alphas = [float(alphas[t - stride]) if t >= stride else last for t in timesteps]
        pairs = [*zip(timesteps, next_alphas, strict=True)][first_step(steps, strength) :]
        return StepTable([self._step(t, float(alphas[t]), f) for t, f in pairs])

    def _step(self, timestep: int, alpha: float, next_alpha: float) -> Step:
        (clean_x, clean_o), (noise_x, noise_o) = self.diffusion.clean_and_noise(alpha, timestep)
        clean, noise = math.sqrt(next_alpha), math.sqrt(1 - next_alpha)
        latent, output = noise * noise_x, noise * noise_o
        if not self.clip_sample:
            latent, output, clean = latent + clean * clean_x, output + clean * clean_o, 0.0
        return Step(
            timestep=timestep,
            latent=latent,
            output=output,
            clean=clean,
            clean_latent=clean_x,
            clean_output=clean_o,
            clip=self.clip_sample_range if self.clip_sample else None,
            signal=math.sqrt(alpha),
            sigma=math.sqrt(1 - alpha),
        )

"""Euler's method on the probability flow: Karras et al. (2022, arXiv 2206.00364), algorithm 1 of order one.

Latents are not kept at size 1 but grow with the noise, as in diffusers' EulerDiscreteScheduler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.runtime.diffusion import Diffusion, Double, chosen, karras, refuse, require, timesteps_of
from msd.runtime.step import Step, StepTable


@dataclass(frozen=True)
class Euler:
    """Its settings in a scheduler_config.json, with the defaults of diffusers' EulerDiscreteScheduler."""

    diffusion: Diffusion = field(default_factory=Diffusion)
    interpolation_type: str = "linear"
    use_karras_sigmas: bool = False
    timestep_spacing: str = "linspace"
    timestep_type: str = "discrete"
    steps_offset: int = 0
    final_sigmas_type: str = "zero"
    sigma_min: float | None = None
    sigma_max: float | None = None
    use_exponential_sigmas: bool = False
    use_beta_sigmas: bool = False

    def __post_init__(self) -> None:
        require("interpolation_type", self.interpolation_type, ("linear",))
        require("timestep_type", self.timestep_type, ("discrete",))
        require("timestep_spacing", self.timestep_spacing, ("leading", "trailing", "linspace"))
        require("final_sigmas_type", self.final_sigmas_type, ("zero", "sigma_min"))
        refuse(self, "use_exponential_sigmas", "use_beta_sigmas")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Euler:
        """Return it with a configuration's settings, whatever class wrote it; others are ignored."""
        return Euler(Diffusion.from_config(config), **chosen(Euler, config))

    def table(self, steps: int) -> StepTable:
        """Return the `steps` steps. Raises BadConfig where the schedule makes a step impossible."""
        self.diffusion.require_steps(steps)
        timesteps, sigmas = self._visited(steps)
        made_steps = [
            self._step(float(t), *pair) for t, *pair in zip(timesteps, sigmas, sigmas[1:], strict=False)
        ]
        largest = max(sigmas)
        return StepTable(
            made_steps, math.sqrt(largest**2 + 1) if self.timestep_spacing == "leading" else largest
        )

    def _visited(self, steps: int) -> tuple[Double, list[float]]:
        """Return the timesteps, and their sigmas with the one that follows the last."""
        trained = self.diffusion.sigmas()
        timesteps = self._timesteps(steps)
        if timesteps[0] >= len(trained):
            raise BadConfig(f"{steps} steps from offset {self.steps_offset} pass the last timestep")
        sigmas = np.interp(timesteps, np.arange(len(trained)), trained)
        if self.use_karras_sigmas:
            sigmas = karras(self.sigma_max or sigmas[0], self.sigma_min or sigmas[-1], steps)
            timesteps = timesteps_of(sigmas, trained)
        last = trained[0] if self.final_sigmas_type == "sigma_min" else 0.0
        return timesteps, [float(s) for s in np.array([*sigmas, last], np.float32)]

    def _timesteps(self, steps: int) -> Double:
        total = self.diffusion.num_train_timesteps
        if self.timestep_spacing == "trailing":
            return np.arange(total, 0, -total / steps).round() - 1
        if self.timestep_spacing == "leading":
            return np.arange(steps - 1, -1, -1.0) * (total // steps) + self.steps_offset
        return np.linspace(0, total - 1, steps, dtype=np.float32)[::-1].astype(np.float64)

    def _step(self, timestep: float, sigma: float, following: float) -> Step:
        scale = 1 / math.sqrt(sigma**2 + 1)
        (clean_x, clean_o), _ = self.diffusion.predicted(scale**2, timestep)
        share = following / sigma
        return Step(
            timestep,
            share + (1 - share) * clean_x * scale,
            (1 - share) * clean_o,
            clean_latent=clean_x * scale,
            clean_output=clean_o,
            scale=scale,
        )

"""Euler's method on the probability flow: Karras et al. (2022, arXiv 2206.00364), algorithm 1, first order.

Latents are not scaled to unit variance but grow with the noise, as in diffusers' EulerDiscreteScheduler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.diffusion import (
    Diffusion,
    Double,
    karras_sigmas,
    refuse,
    require,
    settings_in,
    timesteps_of,
)
from msd.run.runtime.step import Step, StepTable, first_step


@dataclass(frozen=True)
class Euler:
    """The settings in a scheduler_config.json, with the defaults of diffusers' EulerDiscreteScheduler."""

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
        for name in ("sigma_min", "sigma_max"):
            if (sigma := getattr(self, name)) is not None and not sigma > 0:
                raise BadConfig(f"{name} is {sigma:g}; a number above 0 was expected")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Euler:
        """Return Euler's method with a configuration's settings, whatever class wrote it; ignores others."""
        return Euler(Diffusion.from_config(config), **settings_in(Euler, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        self.diffusion.require_steps(steps)
        timesteps, sigmas = self._timesteps_and_sigmas(steps)
        pairs = zip(timesteps, sigmas, sigmas[1:], strict=False)
        steps_in_order = [self.step(float(t), *pair) for t, *pair in pairs]
        largest = max(sigmas)
        start = math.sqrt(largest**2 + 1) if self.timestep_spacing == "leading" else largest
        return StepTable(steps_in_order[first_step(steps, strength) :], start)

    def _timesteps_and_sigmas(self, steps: int) -> tuple[Double, list[float]]:
        """Return the timesteps, and their sigmas followed by the final one."""
        training_sigmas = self.diffusion.sigmas()
        timesteps = self._timesteps(steps)
        if timesteps[0] >= len(training_sigmas):
            raise BadConfig(f"{steps} steps from offset {self.steps_offset} pass the last timestep")
        sigmas = np.interp(timesteps, np.arange(len(training_sigmas)), training_sigmas)
        if self.use_karras_sigmas:
            sigmas = karras_sigmas(self.sigma_max or sigmas[0], self.sigma_min or sigmas[-1], steps)
            timesteps = timesteps_of(sigmas, training_sigmas)
        last = training_sigmas[0] if self.final_sigmas_type == "sigma_min" else 0.0
        return timesteps, [float(s) for s in np.array([*sigmas, last], np.float32)]

    def _timesteps(self, steps: int) -> Double:
        total = self.diffusion.num_train_timesteps
        if self.timestep_spacing == "trailing":
            return np.arange(total, 0, -total / steps).round() - 1
        if self.timestep_spacing == "leading":
            return np.arange(steps - 1, -1, -1.0) * (total // steps) + self.steps_offset
        return np.linspace(0, total - 1, steps, dtype=np.float32)[::-1].astype(np.float64)

    def step(self, timestep: float, sigma: float, next_sigma: float) -> Step:
        """Return the step from the noise `sigma` at a timestep to `next_sigma`, both for a signal of 1."""
        scale = 1 / math.sqrt(sigma**2 + 1)
        (clean_x, clean_o), _ = self.diffusion.clean_and_noise(scale**2, timestep)
        share = next_sigma / sigma
        return Step(
            timestep=timestep,
            latent=share + (1 - share) * clean_x * scale,
            output=(1 - share) * clean_o,
            clean_latent=clean_x * scale,
            clean_output=clean_o,
            scale=scale,
            sigma=sigma,
        )

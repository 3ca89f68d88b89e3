"""Euler's method on the probability flow: Karras et al. (2022, arXiv 2206.00364), algorithm 1, first order.

Latents are not scaled to unit variance but grow with the noise, as in diffusers' EulerDiscreteScheduler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import Diffusion, require, settings_in
from msd.run.runtime.sigmas import FINAL_SIGMAS, NoiseLevels, VisitedSigmas
from msd.run.runtime.step import Step, StepTable, first_step, step_table


@dataclass(frozen=True)
class Euler(VisitedSigmas):
    """The settings in a scheduler_config.json, with the defaults of diffusers' EulerDiscreteScheduler."""

    interpolation_type: str = "linear"
    timestep_type: str = "discrete"
    final_sigmas_type: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        require("interpolation_type", self.interpolation_type, ("linear", "log_linear"))
        require("timestep_type", self.timestep_type, ("discrete", "continuous"))
        require("final_sigmas_type", self.final_sigmas_type, FINAL_SIGMAS)

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Euler:
        """Return Euler's method with a configuration's settings, whatever class wrote it; ignores others."""
        return Euler(Diffusion.from_config(config), **settings_in(Euler, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels = self.levels(steps)
        ends = zip(self._named(levels), levels.sigmas, levels.sigmas[1:], strict=False)
        taken = [euler_step(self.diffusion, *step) for step in ends]
        return step_table(taken[first_step(steps, strength) :], self.start(levels))

    def _of_timesteps(self, timesteps: Double, training: Double) -> Double:
        if self.interpolation_type == "linear":
            return super()._of_timesteps(timesteps, training)
        ends = math.log(training[-1]), math.log(training[0])
        spaced: Double = np.exp(np.linspace(*ends, len(timesteps) + 1))
        return spaced

    def _final(self, training: Double) -> float:
        return float(training[0]) if self.final_sigmas_type == "sigma_min" else 0.0

    def _named(self, levels: NoiseLevels) -> list[float]:
        """Return what the network is told of each level: its timestep, or a quarter of log sigma."""
        if (self.timestep_type, self.diffusion.prediction_type) != ("continuous", "v_prediction"):
            return levels.timesteps
        return [math.log(sigma) / 4 for sigma in levels.sigmas[: len(levels.timesteps)]]


@dataclass(frozen=True)
class Slope:
    """The derivative of latents x by their noise, and the clean latents, as coefficients of (x, o)."""

    derivative: tuple[float, float]
    clean: tuple[float, float]
    scale: float


def slope_at(diffusion: Diffusion, timestep: float, sigma: float) -> Slope:
    """Return the slope at a level of noise `sigma`, for a signal of size 1."""
    scale = 1 / math.sqrt(sigma**2 + 1)
    (clean_x, clean_o), _ = diffusion.clean_and_noise(scale**2, timestep)
    clean_x *= scale
    return Slope(((1 - clean_x) / sigma, -clean_o / sigma), (clean_x, clean_o), scale)


def euler_step(diffusion: Diffusion, timestep: float, sigma: float, next_sigma: float) -> Step:
    """Return the step from the noise `sigma` at a timestep to `next_sigma`, both for a signal of 1."""
    if sigma <= 0:
        raise BadConfig(f"there is no noise at timestep {timestep:g}, and no step from there")
    slope = slope_at(diffusion, timestep, sigma)
    clean_x, clean_o = slope.clean
    share = next_sigma / sigma
    return Step(
        timestep=timestep,
        latent=share + (1 - share) * clean_x,
        output=(1 - share) * clean_o,
        clean_latent=clean_x,
        clean_output=clean_o,
        scale=slope.scale,
        sigma=sigma,
    )

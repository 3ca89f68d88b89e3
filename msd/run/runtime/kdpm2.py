"""DPM-Solver-2 of k-diffusion, "DPM2" and "DPM2 a": Karras et al. (2022, arXiv 2206.00364), algorithm 2.

Each step but the last runs the network at its beginning and at its middle in log σ, where Euler's method
leads, and takes the whole step by what the network says there. The ancestral one goes further down, and noise
takes it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, settings_in, without
from msd.run.runtime.euler import euler_step, slope_at
from msd.run.runtime.euler_ancestral import ancestral
from msd.run.runtime.heun import SECOND_ORDER_DEFAULTS
from msd.run.runtime.sigmas import NoiseLevels, VisitedSigmas, timesteps_of
from msd.run.runtime.step import Step, StepTable, first_step, step_table


@dataclass(frozen=True)
class Kdpm2(VisitedSigmas):
    """The settings in a scheduler_config.json, with the defaults of diffusers' KDPM2DiscreteScheduler."""

    rounds_karras: ClassVar[bool] = True
    lacks: ClassVar[tuple[str, ...]] = NO_RESCALING

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Kdpm2:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        own = SECOND_ORDER_DEFAULTS | without(config, cls.lacks)
        return cls(Diffusion.from_config(own), **settings_in(cls, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels = self.levels(steps)
        return step_table([*self._steps(levels)][2 * first_step(steps, strength) :], self.start(levels))

    def _ends(self, sigma: float, end: float) -> tuple[float, float]:
        """Return the noise that a step ends with, and that which is added then."""
        return end, 0.0

    def _steps(self, levels: NoiseLevels) -> Iterator[Step]:
        training = self.diffusion.sigmas()
        for timestep, sigma, end in zip(levels.timesteps, levels.sigmas, levels.sigmas[1:], strict=True):
            if end == 0:
                yield euler_step(self.diffusion, timestep, sigma, 0.0)
                return
            lower, noise = self._ends(sigma, end)
            middle = math.sqrt(sigma * lower)
            yield replace(euler_step(self.diffusion, timestep, sigma, middle), save=(1.0,))
            there = float(timesteps_of(np.array([middle]), training)[0])
            yield self._second(there, middle, lower - sigma, end, noise)

    def _second(self, timestep: float, middle: float, length: float, end: float, noise: float) -> Step:
        """Return the whole step from the saved latents, by the slope in its middle.

        An image that is put back before it gets the noise of the step's end, as diffusers has it.
        """
        slope = slope_at(self.diffusion, timestep, middle)
        return Step(
            timestep=timestep,
            latent=length * slope.derivative[0],
            output=length * slope.derivative[1],
            clean_latent=slope.clean[0],
            clean_output=slope.clean[1],
            saved=1.0,
            noise=noise,
            scale=slope.scale,
            sigma=end,
        )


@dataclass(frozen=True)
class Kdpm2Ancestral(Kdpm2):
    """The settings in a scheduler_config.json; defaults of diffusers' KDPM2AncestralDiscreteScheduler."""

    def _ends(self, sigma: float, end: float) -> tuple[float, float]:
        return ancestral(sigma, end)

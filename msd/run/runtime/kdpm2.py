"""DPM-Solver-2 of k-diffusion, "DPM2" and "DPM2 a": Karras et al. (2022, arXiv 2206.00364), algorithm 2.

Each step but the last runs the network at its beginning and at its middle in log σ, where Euler's method
leads, and takes the whole step by what the network says there. The ancestral one goes further down, and noise
takes it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from msd.run.runtime.euler import euler_step
from msd.run.runtime.euler_ancestral import ancestral
from msd.run.runtime.second_order import SecondOrder
from msd.run.runtime.sigmas import NoiseLevels, timesteps_of
from msd.run.runtime.step import Step


@dataclass(frozen=True)
class Kdpm2(SecondOrder):
    """The settings in a scheduler_config.json, with the defaults of diffusers' KDPM2DiscreteScheduler."""

    rounds_karras: ClassVar[bool] = True

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
        return replace(self._whole(timestep, middle, length), noise=noise, sigma=end)


@dataclass(frozen=True)
class Kdpm2Ancestral(Kdpm2):
    """The settings in a scheduler_config.json; defaults of diffusers' KDPM2AncestralDiscreteScheduler."""

    def _ends(self, sigma: float, end: float) -> tuple[float, float]:
        return ancestral(sigma, end)

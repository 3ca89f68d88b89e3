"""DPM-Solver++ with noise, of two runs of the network a step: k-diffusion's "DPM++ SDE".

The first run leads to the middle of the step in log σ, the second one takes the whole step from its
beginning, and both add noise. The noise of the whole step has that of its first half as a part, as on one
Brownian path.
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
class DpmSde(SecondOrder):
    """The settings in a scheduler_config.json, with the defaults of diffusers' DPMSolverSDEScheduler."""

    karras_has_ends: ClassVar[bool] = False

    def _steps(self, levels: NoiseLevels) -> Iterator[Step]:
        training = self.diffusion.sigmas()
        for timestep, sigma, end in zip(levels.timesteps, levels.sigmas, levels.sigmas[1:], strict=True):
            if end == 0:
                yield euler_step(self.diffusion, timestep, sigma, 0.0)
                return
            middle = math.sqrt(sigma * end)
            half, whole = ancestral(sigma, middle), ancestral(sigma, end)
            shared = shared_noise(sigma, end)
            plain = euler_step(self.diffusion, timestep, sigma, half[0])
            save = (whole[0] / sigma, 0.0, whole[1] * shared)
            yield replace(plain, noise=half[1], save=save)
            there = float(timesteps_of(np.array([middle]), training)[0])
            again = euler_step(self.diffusion, there, middle, 0.0)
            yield replace(
                again,
                latent=0.0,
                output=0.0,
                clean=1 - whole[0] / sigma,
                saved=1.0,
                noise=whole[1] * math.sqrt(1 - shared**2),
                sigma=end,
            )


def shared_noise(sigma: float, end: float) -> float:
    """Return how much of a step's noise, of size 1, is the noise of its first half: on one Brownian path.

    The path's time is σ, as in k-diffusion's BrownianTreeNoiseSampler.
    """
    return math.sqrt((sigma - math.sqrt(sigma * end)) / (sigma - end)) if sigma != end else 0.0

"""DPM-Solver++ with noise, of two runs of the network a step: k-diffusion's "DPM++ SDE".

The first run leads to the middle of the step in log σ, the second one takes the whole step from its
beginning, and both add noise. The noise of the whole step has that of its first half as a part, as on one
Brownian path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, settings_in, without
from msd.run.runtime.euler import euler_step
from msd.run.runtime.euler_ancestral import ancestral
from msd.run.runtime.heun import SECOND_ORDER_DEFAULTS
from msd.run.runtime.sigmas import NoiseLevels, VisitedSigmas, timesteps_of
from msd.run.runtime.step import Step, StepTable, first_step, step_table


@dataclass(frozen=True)
class DpmSde(VisitedSigmas):
    """The settings in a scheduler_config.json, with the defaults of diffusers' DPMSolverSDEScheduler."""

    karras_has_ends: ClassVar[bool] = False
    lacks: ClassVar[tuple[str, ...]] = NO_RESCALING

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> DpmSde:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        own = SECOND_ORDER_DEFAULTS | without(config, DpmSde.lacks)
        return DpmSde(Diffusion.from_config(own), **settings_in(DpmSde, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels = self.levels(steps)
        return step_table([*self._steps(levels)][2 * first_step(steps, strength) :], self.start(levels))

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

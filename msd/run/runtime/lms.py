"""The linear multistep method of Adams and Bashforth, of order four, as in k-diffusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, settings_in, without
from msd.run.runtime.euler import slope_at
from msd.run.runtime.sigmas import NoiseLevels, VisitedSigmas
from msd.run.runtime.step import Step, StepTable, first_step, step_table

ORDER = 4


@dataclass(frozen=True)
class Lms(VisitedSigmas):
    """The settings in a scheduler_config.json, with the defaults of diffusers' LMSDiscreteScheduler."""

    karras_has_ends: ClassVar[bool] = False
    lacks: ClassVar[tuple[str, ...]] = NO_RESCALING

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Lms:
        """Return the method with a configuration's settings, whatever class wrote it; others are ignored."""
        own = without(config, Lms.lacks)
        return Lms(Diffusion.from_config(own), **settings_in(Lms, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones.

        As in diffusers, a schedule that begins part-way begins with the coefficients that it would have had
        there, of which those of steps that were not taken count for nothing.
        """
        levels, first = self.levels(steps), first_step(steps, strength)
        return step_table(
            [self._step(levels, i, i - first + 1) for i in range(first, steps)], self.start(levels)
        )

    def _step(self, levels: NoiseLevels, i: int, taken: int) -> Step:
        timestep, sigma = levels.timesteps[i], levels.sigmas[i]
        visited = [levels.sigmas[i - k] for k in range(min(i + 1, ORDER))]
        own, *earlier = [
            integral_of_basis(visited, k, sigma, levels.sigmas[i + 1])
            for k in range(min(taken, len(visited)))
        ]
        slope = slope_at(self.diffusion, timestep, sigma)
        return Step(
            timestep=timestep,
            latent=1 + own * slope.derivative[0],
            output=own * slope.derivative[1],
            clean_latent=slope.clean[0],
            clean_output=slope.clean[1],
            history=tuple(earlier),
            kept_latent=slope.derivative[0],
            kept_output=slope.derivative[1],
            scale=slope.scale,
            sigma=sigma,
        )


def integral_of_basis(nodes: Sequence[float], k: int, start: float, end: float) -> float:
    """Return the integral from `start` to `end` of the polynomial that is 1 at node `k`, 0 at the others.

    Gauss's quadrature, which is exact for polynomials of this degree.
    """
    if len({*nodes}) < len(nodes):
        return math.nan
    places, weights = _quadrature(len(nodes))
    half = (end - start) / 2
    at = (start + end) / 2 + half * places
    values = [np.subtract(at, node) / (nodes[k] - node) for i, node in enumerate(nodes) if i != k]
    return float(half * np.sum(weights * np.prod(values, axis=0)))


@cache
def _quadrature(count: int) -> tuple[Double, Double]:
    """Return the places and weights of Gauss's quadrature on -1 to 1."""
    places, weights = np.polynomial.legendre.leggauss(count)  # type: ignore[no-untyped-call]
    return places, weights

"""Heun's method on the probability flow: Karras et al. (2022, arXiv 2206.00364), algorithm 1, without churn.

Each step but the last runs the network twice: at its beginning, and at its end as Euler's method predicts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msd.run.runtime.diffusion import refuse
from msd.run.runtime.euler import euler_step, slope_at
from msd.run.runtime.second_order import SecondOrder
from msd.run.runtime.sigmas import NoiseLevels
from msd.run.runtime.step import Step


@dataclass(frozen=True)
class Heun(SecondOrder):
    """The settings in a scheduler_config.json, with the defaults of diffusers' HeunDiscreteScheduler."""

    clip_sample: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self, "clip_sample")

    def _steps(self, levels: NoiseLevels) -> Iterator[Step]:
        for i, timestep in enumerate(levels.timesteps):
            sigma, end = levels.sigmas[i : i + 2]
            slope = slope_at(self.diffusion, timestep, sigma).derivative
            plain = euler_step(self.diffusion, timestep, sigma, end)
            yield replace(plain, save=(1.0,), kept_latent=slope[0], kept_output=slope[1])
            if end > 0:
                yield self._again(levels.timesteps[i + 1], end, (end - sigma) / 2)

    def _again(self, timestep: float, sigma: float, half: float) -> Step:
        """Return the whole step from the saved latents, by the mean of the slopes at both ends."""
        return replace(self._whole(timestep, sigma, half), history=(half,))

"""What schedulers have in common that run the network twice in each step but the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, settings_in, without
from msd.run.runtime.euler import slope_at
from msd.run.runtime.sigmas import NoiseLevels, VisitedSigmas
from msd.run.runtime.step import Step, StepTable, first_step, step_table

DEFAULTS: dict[str, Any] = {"beta_start": 0.00085, "beta_end": 0.012}
"""The defaults in which diffusers' schedulers with two runs a step differ from the others."""


@dataclass(frozen=True)
class SecondOrder(VisitedSigmas):
    """A scheduler of two runs a step; a subclass has the steps."""

    lacks: ClassVar[tuple[str, ...]] = NO_RESCALING

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return the scheduler with a configuration's settings, whatever class wrote it; ignores others."""
        own = DEFAULTS | without(config, cls.lacks)
        return cls(Diffusion.from_config(own), **settings_in(cls, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels = self.levels(steps)
        return step_table([*self._steps(levels)][2 * first_step(steps, strength) :], self.start(levels))

    def _steps(self, levels: NoiseLevels) -> Iterator[Step]:
        raise NotImplementedError

    def _whole(self, timestep: float, sigma: float, length: float) -> Step:
        """Return a step from the saved latents, `length` of noise along the slope at `sigma`."""
        slope = slope_at(self.diffusion, timestep, sigma)
        return Step(
            timestep=timestep,
            latent=length * slope.derivative[0],
            output=length * slope.derivative[1],
            clean_latent=slope.clean[0],
            clean_output=slope.clean[1],
            saved=1.0,
            scale=slope.scale,
            sigma=sigma,
        )

"""Euler's method with noise after each step: diffusers' EulerAncestralDiscreteScheduler, known as "Euler a".

Each step goes further down than its end, and noise of ancestral sampling's variance takes it back (Song, Meng
and Ermon 2020, arXiv 2010.02502, formula 16 with eta = 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from msd.run.runtime.diffusion import Diffusion, require, settings_in
from msd.run.runtime.euler import Euler, euler_step
from msd.run.runtime.spacing import SPACINGS
from msd.run.runtime.step import Step, StepTable, step_table


@dataclass(frozen=True)
class EulerAncestral:
    """The settings in a scheduler_config.json; defaults as in diffusers' EulerAncestralDiscreteScheduler."""

    diffusion: Diffusion = field(default_factory=Diffusion)
    timestep_spacing: str = "linspace"
    steps_offset: int = 0

    def __post_init__(self) -> None:
        require("timestep_spacing", self.timestep_spacing, SPACINGS)

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> EulerAncestral:
        """Return the method with a configuration's settings, whatever class wrote it; others are ignored."""
        return EulerAncestral(Diffusion.from_config(config), **settings_in(EulerAncestral, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        plain = self._euler.table(steps, strength)
        ends = [*(step.sigma for step in plain.steps[1:]), 0.0]
        return step_table([self._step(*pair) for pair in zip(plain.steps, ends, strict=True)], plain.start)

    @cached_property
    def _euler(self) -> Euler:
        return Euler(self.diffusion, timestep_spacing=self.timestep_spacing, steps_offset=self.steps_offset)

    def _step(self, step: Step, end: float) -> Step:
        lower, noise = ancestral(step.sigma, end)
        return replace(euler_step(self.diffusion, step.timestep, step.sigma, lower), noise=noise)


def ancestral(sigma: float, end: float) -> tuple[float, float]:
    """Return how far down a step from `sigma` to `end` goes, and the noise that takes it back."""
    lower = end**2 / sigma
    return lower, math.sqrt(max(0.0, end**2 - lower**2))

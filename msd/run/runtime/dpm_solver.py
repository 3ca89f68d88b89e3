"""DPM-Solver++ of order two, multistep: Lu et al. (2022, arXiv 2211.01095), algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

FEW = 15
"""With fewer steps than this, the last one is of order one if lower_order_final is set."""


@dataclass(frozen=True)
class DpmSolver:
    """The settings in a scheduler_config.json; defaults as in diffusers' DPMSolverMultistepScheduler."""

    diffusion: Diffusion = field(default_factory=Diffusion)
    solver_order: int = 2
    algorithm_type: str = "dpmsolver++"
    solver_type: str = "midpoint"
    lower_order_final: bool = True
    euler_at_final: bool = False
    use_karras_sigmas: bool = False
    final_sigmas_type: str = "zero"
    lambda_min_clipped: float = -math.inf
    timestep_spacing: str = "linspace"
    steps_offset: int = 0
    use_exponential_sigmas: bool = False
    use_beta_sigmas: bool = False
    use_lu_lambdas: bool = False
    use_flow_sigmas: bool = False

    def __post_init__(self) -> None:
        require("algorithm_type", self.algorithm_type, ("dpmsolver++",))
        require("solver_type", self.solver_type, ("midpoint", "heun"))
        require("final_sigmas_type", self.final_sigmas_type, ("zero", "sigma_min"))
        require("timestep_spacing", self.timestep_spacing, ("leading", "trailing", "linspace"))
        if self.solver_order not in (1, 2):
            raise BadConfig(f"DPM-Solver++ of order {self.solver_order} is not supported; 1 and 2 are")
        refuse(self, "use_exponential_sigmas", "use_beta_sigmas", "use_lu_lambdas", "use_flow_sigmas")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> DpmSolver:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        return DpmSolver(Diffusion.from_config(config), **settings_in(DpmSolver, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        self.diffusion.require_steps(steps)
        timesteps, sigmas = self._timesteps_and_sigmas(steps)
        points = [_point(sigma) for sigma in sigmas]
        first = first_step(steps, strength)
        return StepTable([self._step(timesteps[i], points, i, i == first) for i in range(first, steps)])

    def _timesteps_and_sigmas(self, steps: int) -> tuple[list[int], list[float]]:
        """Return the timesteps, and their sigmas followed by the final one."""
        training_sigmas = self.diffusion.sigmas()
        timesteps = self._timesteps(steps, training_sigmas)
        if self.use_karras_sigmas:
            sigmas = karras_sigmas(training_sigmas[-1], training_sigmas[0], steps)
            timesteps = timesteps_of(sigmas, training_sigmas)
            if self.diffusion.beta_schedule != "squaredcos_cap_v2":
                timesteps = timesteps.round()
        else:
            if timesteps[0] >= len(training_sigmas):
                raise BadConfig(f"{steps} steps from offset {self.steps_offset} pass the last timestep")
            sigmas = np.interp(timesteps, np.arange(len(training_sigmas)), training_sigmas)
        last = training_sigmas[0] if self.final_sigmas_type == "sigma_min" else 0.0
        return [int(t) for t in timesteps], [float(s) for s in np.array([*sigmas, last], np.float32)]

    def _timesteps(self, steps: int, training_sigmas: Double) -> Double:
        last = int(np.count_nonzero(-np.log(training_sigmas) >= self.lambda_min_clipped))
        if self.timestep_spacing == "trailing":
            return np.arange(last, 0, -self.diffusion.num_train_timesteps / steps).round() - 1
        if self.timestep_spacing == "leading":
            return np.arange(steps, 0, -1.0) * (last // (steps + 1)) + self.steps_offset
        return np.linspace(0, last - 1, steps + 1).round()[:0:-1]

    def _step(self, timestep: int, points: Sequence[_Point], i: int, is_first: bool) -> Step:
        """Return a step by the paper's formula (9) if it is of order one, else by (13)."""
        here, there = points[i], points[i + 1]
        (clean_x, clean_o), _ = self.diffusion.clean_and_noise(here.alpha**2, timestep)
        h = there.logsnr - here.logsnr
        growth = -there.alpha * math.expm1(-h)
        clean, previous = growth, 0.0
        if (
            self.solver_order == 2
            and not is_first
            and h > 0
            and not self._is_order_one_end(i, len(points) - 1)
        ):
            ratio = (here.logsnr - points[i - 1].logsnr) / h
            correction = self._correction(there.alpha, h) / ratio
            clean, previous = growth + correction, -correction
        return Step(
            timestep=timestep,
            latent=there.sigma / here.sigma,
            clean=clean,
            clean_latent=clean_x,
            clean_output=clean_o,
            previous=previous,
            signal=here.alpha,
            sigma=here.sigma,
        )

    def _correction(self, alpha: float, h: float) -> float:
        if self.solver_type == "midpoint":
            return -alpha * math.expm1(-h) / 2
        return alpha * (math.expm1(-h) / h + 1)

    def _is_order_one_end(self, i: int, steps: int) -> bool:
        """Return whether the step is the last one and of order one."""
        few = self.lower_order_final and steps < FEW
        return i == steps - 1 and (self.euler_at_final or few or self.final_sigmas_type == "zero")


@dataclass(frozen=True)
class _Point:
    """The size of the signal, the size of the noise, and the logarithm of their ratio."""

    alpha: float
    sigma: float
    logsnr: float


def _point(sigma: float) -> _Point:
    alpha = 1 / math.sqrt(sigma**2 + 1)
    return _Point(alpha, sigma * alpha, -math.log(sigma) if sigma else math.inf)

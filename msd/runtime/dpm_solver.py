"""DPM-Solver++ of order two, multistep: Lu et al. (2022, arXiv 2211.01095), algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.runtime.diffusion import Diffusion, Double, chosen, karras, refuse, require, timesteps_of
from msd.runtime.step import Step, StepTable

FEW = 15
"""With fewer steps than this the last is of order one, if lower_order_final is set."""


@dataclass(frozen=True)
class DpmSolver:
    """Its settings in a scheduler_config.json; defaults as in diffusers' DPMSolverMultistepScheduler."""

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
        return DpmSolver(Diffusion.from_config(config), **chosen(DpmSolver, config))

    def table(self, steps: int) -> StepTable:
        """Return the `steps` steps. Raises BadConfig where the schedule makes a step impossible."""
        self.diffusion.require_steps(steps)
        timesteps, sigmas = self._visited(steps)
        points = [_point(sigma) for sigma in sigmas]
        return StepTable([self._step(t, points, i) for i, t in enumerate(timesteps)])

    def _visited(self, steps: int) -> tuple[list[int], list[float]]:
        """Return the timesteps, and their sigmas with the one that follows the last."""
        trained = self.diffusion.sigmas()
        timesteps = self._timesteps(steps, trained)
        if self.use_karras_sigmas:
            sigmas = karras(trained[-1], trained[0], steps)
            timesteps = timesteps_of(sigmas, trained)
            if self.diffusion.beta_schedule != "squaredcos_cap_v2":
                timesteps = timesteps.round()
        else:
            if timesteps[0] >= len(trained):
                raise BadConfig(f"{steps} steps from offset {self.steps_offset} pass the last timestep")
            sigmas = np.interp(timesteps, np.arange(len(trained)), trained)
        last = trained[0] if self.final_sigmas_type == "sigma_min" else 0.0
        return [int(t) for t in timesteps], [float(s) for s in np.array([*sigmas, last], np.float32)]

    def _timesteps(self, steps: int, trained: Double) -> Double:
        last = int(np.count_nonzero(-np.log(trained) >= self.lambda_min_clipped))
        if self.timestep_spacing == "trailing":
            return np.arange(last, 0, -self.diffusion.num_train_timesteps / steps).round() - 1
        if self.timestep_spacing == "leading":
            return np.arange(steps, 0, -1.0) * (last // (steps + 1)) + self.steps_offset
        return np.linspace(0, last - 1, steps + 1).round()[:0:-1]

    def _step(self, timestep: int, points: Sequence[_Point], i: int) -> Step:
        """Return formula (9) of the paper for the first step and, where asked for, the last; else (13)."""
        here, there = points[i], points[i + 1]
        (clean_x, clean_o), _ = self.diffusion.predicted(here.alpha**2, timestep)
        h = there.logsnr - here.logsnr
        grown = -there.alpha * math.expm1(-h)
        clean, previous = grown, 0.0
        if self.solver_order == 2 and i > 0 and h > 0 and not self._ends(i, len(points) - 1):
            ratio = (here.logsnr - points[i - 1].logsnr) / h
            bend = self._bend(there.alpha, h) / ratio
            clean, previous = grown + bend, -bend
        return Step(
            timestep,
            there.sigma / here.sigma,
            clean=clean,
            clean_latent=clean_x,
            clean_output=clean_o,
            previous=previous,
        )

    def _bend(self, alpha: float, h: float) -> float:
        if self.solver_type == "midpoint":
            return -alpha * math.expm1(-h) / 2
        return alpha * (math.expm1(-h) / h + 1)

    def _ends(self, i: int, steps: int) -> bool:
        """Whether the step is a last one that is of order one."""
        few = self.lower_order_final and steps < FEW
        return i == steps - 1 and (self.euler_at_final or few or self.final_sigmas_type == "zero")


@dataclass(frozen=True)
class _Point:
    """How large signal and noise are, and the logarithm of their ratio."""

    alpha: float
    sigma: float
    logsnr: float


def _point(sigma: float) -> _Point:
    alpha = 1 / math.sqrt(sigma**2 + 1)
    return _Point(alpha, sigma * alpha, -math.log(sigma) if sigma else math.inf)

"""DPM-Solver of order one to three, multistep, also with noise: Lu et al. (2022, arXiv 2211.01095)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import Diffusion, refuse, require, settings_in
from msd.run.runtime.exponential import INTEGRALS, KEEP_NOISE, Integral, Kept, step_at
from msd.run.runtime.sigmas import FINAL_SIGMAS, Point, TrainedSigmas, exponential_sigmas, point_of
from msd.run.runtime.spacing import visited_before_the_end
from msd.run.runtime.step import Step, StepTable, first_step, step_table

FEW = 15
"""With fewer steps than this, the last ones are of a lower order if lower_order_final is set."""

OF_OTHERS = {"algorithm_type": {"deis": "dpmsolver++"}} | {
    "solver_type": dict.fromkeys(("logrho", "bh1", "bh2"), "midpoint")
}
"""What diffusers makes of settings that another solver wrote."""


@dataclass(frozen=True)
class DpmSettings(TrainedSigmas):
    """The settings that both of diffusers' schedulers for DPM-Solver have."""

    solver_order: int = 2
    algorithm_type: str = "dpmsolver++"
    solver_type: str = "midpoint"
    final_sigmas_type: str = "zero"
    lambda_min_clipped: float = -math.inf
    variance_type: str | None = None
    use_flow_sigmas: bool = False
    use_dynamic_shifting: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require("algorithm_type", self.algorithm_type, INTEGRALS)
        require("solver_type", self.solver_type, ("midpoint", "heun"))
        require("final_sigmas_type", self.final_sigmas_type, FINAL_SIGMAS)
        require_order(self.solver_order)
        refuse(self, "use_flow_sigmas", "use_dynamic_shifting")
        if self.variance_type in ("learned", "learned_range"):
            raise BadConfig(f"variance_type {self.variance_type} is for diffusion on pixels; leave it out")
        if self.keeps_noise and self.final_sigmas_type == "zero":
            raise BadConfig(
                f"{self.algorithm_type} cannot end without noise: final_sigmas_type should be sigma_min, or"
                f" algorithm_type {self.algorithm_type}++"
            )

    @property
    def keeps_noise(self) -> bool:
        """Whether its predictions are the noise; else they are the clean latents."""
        return self.algorithm_type in KEEP_NOISE

    def integral(self, here: Point, there: Point) -> Integral:
        """Return the coefficients of a step between two points."""
        return INTEGRALS[self.algorithm_type](here, there)

    def _timesteps(self, steps: int, training: Double) -> Double:
        last = int(np.count_nonzero(-np.log(training) >= self.lambda_min_clipped))
        total = len(training)
        return visited_before_the_end(self.timestep_spacing, total, steps, self.steps_offset, last)

    def _final(self, sigmas: Double, training: Double) -> float:
        return float(training[0]) if self.final_sigmas_type == "sigma_min" else 0.0


@dataclass(frozen=True)
class DpmSolver(DpmSettings):
    """The settings in a scheduler_config.json; defaults as in diffusers' DPMSolverMultistepScheduler."""

    lower_order_final: bool = True
    euler_at_final: bool = False
    use_lu_lambdas: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.algorithm_type == "sde-dpmsolver" and self.solver_order == 3:
            raise BadConfig("sde-dpmsolver has no solver_order 3; 1 and 2 are known")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> DpmSolver:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        own = of_dpm(config)
        return DpmSolver(Diffusion.from_config(own), **settings_in(DpmSolver, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels = self.levels(steps)
        points = [*map(point_of, levels.sigmas)]
        first = first_step(steps, strength)
        return step_table([self._step(levels.timesteps[i], points, i, first) for i in range(first, steps)])

    def _respaced(self, noisiest: float, cleanest: float, steps: int) -> Double | None:
        if self.use_lu_lambdas and not self.use_karras_sigmas:
            return exponential_sigmas(noisiest, cleanest, steps)
        return super()._respaced(noisiest, cleanest, steps)

    @property
    def _rounds(self) -> bool:
        evenly = self.use_karras_sigmas or self.use_lu_lambdas
        return evenly and self.diffusion.beta_schedule != "squaredcos_cap_v2"

    def _step(self, timestep: float, points: Sequence[Point], i: int, first: int) -> Step:
        here, there = points[i], points[i + 1]
        integral = self.integral(here, there)
        kept = multistep(integral, points, i, self._order(points, i, first), self.solver_type)
        return step_at(
            self.diffusion,
            timestep,
            here,
            integral.latent,
            kept,
            keeps_noise=self.keeps_noise,
            noise=integral.noise,
        )

    def _order(self, points: Sequence[Point], i: int, first: int) -> int:
        """Return the order of step `i`, which is low in the beginning and may be at the end."""
        steps = len(points) - 1
        few = self.lower_order_final and steps < FEW
        if i == steps - 1 and (self.euler_at_final or few or self.final_sigmas_type == "zero"):
            return 1
        most = min(self.solver_order, 2 if few and i == steps - 2 else 3)
        return order_before(points, i, first, most)


def multistep(integral: Integral, points: Sequence[Point], i: int, order: int, solver_type: str) -> Kept:
    """Return a step's coefficients of the latest `order` predictions, by the paper's (9), (13) and (14)."""
    if order == 1:
        return (integral.zeroth,)
    times = [point.logsnr for point in points]
    h = times[i + 1] - times[i]
    r0 = (times[i] - times[i - 1]) / h
    if order == 2:
        slope = (integral.midpoint if solver_type == "midpoint" else integral.first) / r0
        return integral.zeroth + slope, -slope
    r1 = (times[i - 1] - times[i - 2]) / h
    differences = np.array([[1, -1, 0], [0, 1, -1]]) / [[r0], [r1]]
    curve = (differences[0] - differences[1]) / (r0 + r1)
    own = np.array([integral.zeroth, 0, 0])
    kept = own + integral.first * (differences[0] + r0 * curve) + integral.second * curve
    return tuple(kept.tolist())


def order_before(points: Sequence[Point], i: int, first: int, most: int) -> int:
    """Return the order of step `i`, up to `most`: it needs a different point for each prediction, and an end.

    Two steps may be at one level of noise where there are about as many steps as timesteps; there, diffusers'
    coefficients are not numbers.
    """
    times = [point.logsnr for point in points[max(first, i + 1 - most) : i + 2]]
    different = [later > earlier for earlier, later in pairwise(times)]
    usable = len([*takewhile(bool, reversed(different))])
    return max(1, min(most, usable, i - first + 1))


def require_order(order: int) -> None:
    """Raise BadConfig for a solver's order that is not 1, 2 or 3."""
    if order not in (1, 2, 3):
        raise BadConfig(f"solver_order {order} is not supported; 1, 2 and 3 are")


def of_dpm(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the settings of other solvers replaced.

    Raises BadConfig where diffusers refuses DEIS's, for which it looks at the end before it replaces them.
    """
    if config.get("algorithm_type") == "deis" and config.get("final_sigmas_type", "zero") == "zero":
        raise BadConfig(
            "algorithm_type deis cannot end without noise, in diffusers neither: it should be dpmsolver++, as"
            " msd-convert --scheduler dpm++:algorithm_type=dpmsolver++ writes, or final_sigmas_type sigma_min"
        )
    return translated(config, OF_OTHERS)


def translated(config: Mapping[str, Any], others: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return a configuration with the settings of other solvers replaced, as diffusers replaces them."""
    changed = {
        name: known[config[name]]
        for name, known in others.items()
        if isinstance(config.get(name), str) and config[name] in known
    }
    return {**config, **changed}

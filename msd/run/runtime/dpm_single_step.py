"""DPM-Solver of order one to three, single-step: Lu et al. (2022, arXiv 2211.01095), as diffusers orders it.

Each run of the network is a step of order one from where the last one of that order began, of order two from
there with both predictions, and so on: with order three, 1, 2, 3, 1, 2, 3. The second and third begin again
from the latents that the first one saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, settings_in, without
from msd.run.runtime.dpm_solver import DpmSettings, of_dpm
from msd.run.runtime.exponential import Integral, Kept, step_at
from msd.run.runtime.sigmas import Point, point_of
from msd.run.runtime.spacing import visited_before_the_end
from msd.run.runtime.step import Step, StepTable, first_step, step_table


@dataclass(frozen=True)
class DpmSingleStep(DpmSettings):
    """The settings in a scheduler_config.json; defaults as in diffusers' DPMSolverSinglestepScheduler."""

    lacks: ClassVar[tuple[str, ...]] = (*NO_RESCALING, "timestep_spacing", "steps_offset")
    """Its timesteps are always spaced evenly."""

    lower_order_final: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.algorithm_type == "sde-dpmsolver":
            raise BadConfig("sde-dpmsolver has no single steps; algorithm_type should be sde-dpmsolver++")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> DpmSingleStep:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        own = of_dpm(without(config, DpmSingleStep.lacks))
        return DpmSingleStep(Diffusion.from_config(own), **settings_in(DpmSingleStep, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels, first = self.levels(steps), first_step(steps, strength)
        points = [*map(point_of, levels.sigmas)]
        orders = [*self._orders(steps)]
        orders[first:] = [min(order, i + 1) for i, order in enumerate(orders[first:])]
        return step_table(
            [self._step(levels.timesteps[i], points, i, orders[i]) for i in range(first, steps)]
        )

    def _orders(self, steps: int) -> list[int]:
        """Return the order of each step: a last one without noise is of order one."""
        order, ends_low = self.solver_order, self.lower_order_final
        ends_low = ends_low or steps % order != 0 or self.final_sigmas_type == "zero"
        orders = [i % order + 1 for i in range(steps)]
        if not ends_low:
            return orders
        if order > 1 and steps % order == 0:
            orders[-order:] = [*range(1, order), 1]
        if self.final_sigmas_type == "zero":
            orders[-1] = 1
        return orders

    def _step(self, timestep: float, points: Sequence[Point], i: int, order: int) -> Step:
        begin = i - order + 1
        integral = self.integral(points[begin], points[i + 1])
        return step_at(
            self.diffusion,
            timestep,
            points[i],
            integral.latent,
            _kept(integral, points[begin : i + 2], self.solver_type),
            keeps_noise=self.keeps_noise,
            from_saved=order > 1,
            save=(1.0,) if order == 1 else (),
            noise=integral.noise,
        )

    def _timesteps(self, steps: int, training: Double) -> Double:
        last = int(np.count_nonzero(-np.log(training) >= self.lambda_min_clipped))
        return visited_before_the_end("linspace", len(training), steps, 0, last)


def _kept(integral: Integral, points: Sequence[Point], solver_type: str) -> Kept:
    """Return the coefficients of the predictions at `points`, of which the last is the end of the step."""
    times = [point.logsnr for point in points]
    h = times[-1] - times[0]
    if len(points) == 2:
        return (integral.zeroth,)
    r0 = (times[-2] - times[0]) / h
    if len(points) == 3:
        slope = (integral.midpoint if solver_type == "midpoint" else integral.first) / r0
        return slope, integral.zeroth - slope
    r1 = (times[1] - times[0]) / h
    near, far = np.array([[0, 1, -1], [1, 0, -1]]) / [[r1], [r0]]
    own = np.array([0, 0, integral.zeroth])
    if solver_type == "midpoint":
        return tuple((own + integral.first * far).tolist())
    first, second = (r0 * near - r1 * far) / (r0 - r1), 2 * (far - near) / (r0 - r1)
    return tuple((own + integral.first * first + integral.second * second).tolist())

"""DEIS, multistep in log ρ, as in diffusers' DEISMultistepScheduler.

Zhang and Chen, "Fast Sampling of Diffusion Models with Exponential Integrator" (2022, arXiv 2204.13902). The
noise that the network predicts is integrated over ρ, the noise relative to a signal of size 1, as the
polynomial in log ρ through the latest predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, refuse, require, settings_in, without
from msd.run.runtime.dpm_solver import FEW, order_before, require_order, translated
from msd.run.runtime.exponential import Kept, step_at
from msd.run.runtime.sigmas import Point, TrainedSigmas, point_of
from msd.run.runtime.step import Step, StepTable, first_step, step_table

OF_OTHERS = {"algorithm_type": dict.fromkeys(("dpmsolver", "dpmsolver++"), "deis")} | {
    "solver_type": dict.fromkeys(("midpoint", "heun", "bh1", "bh2"), "logrho")
}


@dataclass(frozen=True)
class Deis(TrainedSigmas):
    """The settings in a scheduler_config.json; defaults as in diffusers' DEISMultistepScheduler."""

    lacks: ClassVar[tuple[str, ...]] = NO_RESCALING

    solver_order: int = 2
    algorithm_type: str = "deis"
    solver_type: str = "logrho"
    lower_order_final: bool = True
    use_flow_sigmas: bool = False
    use_dynamic_shifting: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require("algorithm_type", self.algorithm_type, ("deis",))
        require("solver_type", self.solver_type, ("logrho",))
        require_order(self.solver_order)
        refuse(self, "use_flow_sigmas", "use_dynamic_shifting")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Deis:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        own = translated(without(config, Deis.lacks), OF_OTHERS)
        return Deis(Diffusion.from_config(own), **settings_in(Deis, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels, first = self.levels(steps), first_step(steps, strength)
        points = [*map(point_of, levels.sigmas)]
        indices = range(first, steps)
        return step_table([self._step(levels.timesteps[i], levels.sigmas, points, i, first) for i in indices])

    def _final(self, sigmas: Double, training: Double) -> float:
        evenly = self.use_karras_sigmas or self.use_exponential_sigmas or self.use_beta_sigmas
        return float(sigmas[-1] if evenly else training[0])

    def _step(
        self, timestep: float, sigmas: Sequence[float], points: Sequence[Point], i: int, first: int
    ) -> Step:
        here, there = points[i : i + 2]
        order = self._order(points, i, first)
        rho = [sigmas[i - k] for k in range(order)]
        kept: Kept = tuple(
            there.alpha * integral_of_basis(rho, k, sigmas[i], sigmas[i + 1]) for k in range(order)
        )
        ratio = there.alpha / here.alpha
        return step_at(self.diffusion, timestep, here, ratio, kept, keeps_noise=True)

    def _order(self, points: Sequence[Point], i: int, first: int) -> int:
        """Return the order of step `i`, which is low in the beginning and may be at the end."""
        steps = len(points) - 1
        left = steps - i if self.lower_order_final and steps < FEW else 3
        return order_before(points, i, first, min(self.solver_order, left))


def integral_of_basis(rho: Sequence[float], k: int, start: float, end: float) -> float:
    """Return the integral from `start` to `end` of the polynomial in log ρ that is 1 at `rho`ₖ, else 0."""
    others = [math.log(other) for i, other in enumerate(rho) if i != k]
    size = math.prod(math.log(rho[k]) - other for other in others)

    def indefinite(value: float) -> float:
        log = math.log(value)
        if not others:
            return value
        if len(others) == 1:
            return value * (log - 1 - others[0])
        a, b = others
        return value * (log**2 - (2 + a + b) * (log - 1) + a * b)

    return (indefinite(end) - indefinite(start)) / size

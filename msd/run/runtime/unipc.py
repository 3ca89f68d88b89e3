"""UniPC: Zhao et al., "UniPC: A Unified Predictor-Corrector Framework" (2023, arXiv 2302.04867).

After each run of the network a corrector takes the step before again, with the new prediction, and the
predictor steps on from there: the saved latents of a step are the corrected ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import Diffusion, refuse, require, settings_in
from msd.run.runtime.dpm_solver import order_before, require_order, translated
from msd.run.runtime.exponential import Kept, step_at
from msd.run.runtime.sigmas import FINAL_SIGMAS, Point, TrainedSigmas, point_of
from msd.run.runtime.step import Step, StepTable, first_step, step_table

OF_OTHERS = {"solver_type": dict.fromkeys(("midpoint", "heun", "logrho"), "bh2")}


@dataclass(frozen=True)
class UniPC(TrainedSigmas):
    """The settings in a scheduler_config.json; defaults as in diffusers' UniPCMultistepScheduler.

    `disable_corrector` are the steps, counted from 0, after which nothing is corrected.
    """

    solver_order: int = 2
    predict_x0: bool = True
    solver_type: str = "bh2"
    lower_order_final: bool = True
    disable_corrector: tuple[int, ...] = ()
    solver_p: Any = None
    final_sigmas_type: str = "zero"
    use_flow_sigmas: bool = False
    use_dynamic_shifting: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require("solver_type", self.solver_type, ("bh1", "bh2"))
        require("final_sigmas_type", self.final_sigmas_type, FINAL_SIGMAS)
        require_order(self.solver_order)
        refuse(self, "use_flow_sigmas", "use_dynamic_shifting")
        if self.solver_p is not None:
            raise BadConfig("solver_p, another solver as the predictor, is not supported; leave it out")
        if self.final_sigmas_type == "zero" and not self.predict_x0:
            raise BadConfig(
                "predict_x0=false cannot end without noise: final_sigmas_type should be sigma_min"
            )

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> UniPC:
        """Return the solver with a configuration's settings, whatever class wrote it; others are ignored."""
        return UniPC(Diffusion.from_config(config), **settings_in(UniPC, translated(config, OF_OTHERS)))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        levels, first = self.levels(steps), first_step(steps, strength)
        points = [*map(point_of, levels.sigmas)]
        orders = [self._order(points, i, first) for i in range(first, steps)]
        return step_table(
            [
                self._step(levels.timesteps[first + i], points[: first + i + 2], orders[: i + 1])
                for i in range(steps - first)
            ]
        )

    def _final(self, sigmas: Double, training: Double) -> float:
        evenly = self.use_karras_sigmas or self.use_exponential_sigmas or self.use_beta_sigmas
        if self.final_sigmas_type == "zero":
            return 0.0
        return float(sigmas[-1] if evenly else training[0])

    def _order(self, points: Sequence[Point], i: int, first: int) -> int:
        steps = len(points) - 1
        if points[i + 1].logsnr == math.inf:
            return 1
        left = steps - i if self.lower_order_final else 3
        return order_before(points, i, first, min(self.solver_order, left))

    def _step(self, timestep: float, points: Sequence[Point], orders: Sequence[int]) -> Step:
        """Return the step between the last two of `points`; `orders` has those of the steps until then."""
        before, here = points[:-1], points[-2]
        ratio, kept = self._predictor(points, orders[-1])
        save: tuple[float, ...] = (1.0,)
        if len(orders) > 1 and len(points) - 3 not in self.disable_corrector:
            save = self._correction(timestep, before, orders[-2])
        return step_at(
            self.diffusion,
            timestep,
            here,
            ratio,
            kept,
            keeps_noise=not self.predict_x0,
            from_saved=True,
            save=save,
        )

    def _predictor(self, points: Sequence[Point], order: int) -> tuple[float, Kept]:
        """Return the coefficients of the step between the last two points, by the paper's formula (3)."""
        ratio, zeroth, size = self._plain(points)
        if order == 1:
            return ratio, (zeroth,)
        ratios = self._ratios(points, order)
        matrix, right = self._system(points, [*ratios, 1.0])
        weights = [0.5] if order == 2 else np.linalg.solve(matrix[:-1, :-1], right[:-1]).tolist()
        others = [size * weight / r for weight, r in zip(weights, ratios, strict=True)]
        return ratio, (zeroth - sum(others), *others)

    def _correction(self, timestep: float, points: Sequence[Point], order: int) -> tuple[float, ...]:
        """Return the coefficients of the corrected latents: of x, o, noise, those saved, and what is kept."""
        ratio, zeroth, size = self._plain(points)
        ratios = self._ratios(points, order)
        weights = [0.5]
        if order > 1:
            weights = np.linalg.solve(*self._system(points, [*ratios, 1.0])).tolist()
        others = [size * weight / r for weight, r in zip(weights, ratios, strict=False)]
        own = size * weights[-1]
        pairs = self.diffusion.clean_and_noise(points[-1].alpha ** 2, timestep)
        latent, output = pairs[0] if self.predict_x0 else pairs[1]
        return own * latent, own * output, 0.0, ratio, zeroth - own - sum(others), *others

    def _plain(self, points: Sequence[Point]) -> tuple[float, float, float]:
        """Return the factors of the latents and of a constant prediction, and that of what varies in it."""
        here, there = points[-2:]
        h = there.logsnr - here.logsnr
        if self.predict_x0:
            ratio, size, h = there.sigma / here.sigma, -there.alpha, -h
        else:
            ratio, size = there.alpha / here.alpha, -there.sigma
        zeroth = size * math.expm1(h)
        return ratio, zeroth, zeroth if self.solver_type == "bh2" else size * h

    def _ratios(self, points: Sequence[Point], order: int) -> list[float]:
        """Return how far before the step the predictions of the steps before lie, in lengths of the step."""
        times = [point.logsnr for point in points[-order - 1 :]]
        return [(times[-2 - k] - times[-2]) / (times[-1] - times[-2]) for k in range(1, order)]

    def _system(self, points: Sequence[Point], ratios: Sequence[float]) -> tuple[Double, Double]:
        """Return the matrix and the right side of the paper's theorem 3.1."""
        h = points[-1].logsnr - points[-2].logsnr
        h = -h if self.predict_x0 else h
        basis = math.expm1(h) if self.solver_type == "bh2" else h
        phi, factorial, right = math.expm1(h) / h - 1, 1, []
        for k in range(1, len(ratios) + 1):
            right.append(phi * factorial / basis)
            factorial *= k + 1
            phi = phi / h - 1 / factorial
        return np.vander(np.array(ratios), increasing=True).T, np.array(right)

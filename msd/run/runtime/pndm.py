"""PNDM and PLMS, pseudo numerical methods: Liu et al. (2022, arXiv 2202.09778).

Linear multistep of order four on the network's outputs. The first steps are three of Runge and Kutta, of four
runs each (PNDM), or have lower orders (PLMS, with `skip_prk_steps`), of which the first one is taken twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

from msd.errors import BadConfig
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import NO_RESCALING, Diffusion, impossible, require, settings_in, without
from msd.run.runtime.spacing import SPACINGS, rounded_timesteps, visited
from msd.run.runtime.step import Step, StepTable, first_step, step_table

ADAMS_BASHFORTH = (
    (1.0,),
    (3 / 2, -1 / 2),
    (23 / 12, -16 / 12, 5 / 12),
    (55 / 24, -59 / 24, 37 / 24, -9 / 24),
)
"""The coefficients of the latest outputs, newest first, by how many there are."""

RUNGE_KUTTA = ((1.0,), (1.0,), (1.0,), (1 / 6, 1 / 3, 1 / 3, 1 / 6))
"""Those of each run of a step of Runge and Kutta; the last has those of the runs before it."""


@dataclass(frozen=True)
class Pndm:
    """The settings in a scheduler_config.json, with the defaults of diffusers' PNDMScheduler."""

    lacks: ClassVar[tuple[str, ...]] = NO_RESCALING

    diffusion: Diffusion = field(default_factory=Diffusion)
    skip_prk_steps: bool = False
    set_alpha_to_one: bool = False
    timestep_spacing: str = "leading"
    steps_offset: int = 0

    def __post_init__(self) -> None:
        require("timestep_spacing", self.timestep_spacing, SPACINGS)
        if self.diffusion.prediction_type == "sample":
            raise BadConfig("pndm is for networks that predict epsilon or v_prediction, not sample")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Pndm:
        """Return the method with a configuration's settings, whatever class wrote it; others are ignored."""
        own = without(config, Pndm.lacks)
        return Pndm(Diffusion.from_config(own), **settings_in(Pndm, own))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones.

        Part-way it begins without the steps of Runge and Kutta, as in diffusers' pipeline for inpainting.
        """
        self.diffusion.require_steps(steps)
        total = self.diffusion.num_train_timesteps
        timesteps = rounded_timesteps(visited(self.timestep_spacing, total, steps, self.steps_offset))
        first, alphas, stride = first_step(steps, strength), self.diffusion.alphas(), total // steps
        if self.skip_prk_steps or first:
            # Without its neighbour, a single step is taken once.
            runs = [*timesteps[:2], *timesteps[1:]][first:]
            return step_table([*self._plms(runs, [], alphas, stride)])
        if steps < 4:
            raise BadConfig(
                f"{impossible(steps)}: pndm's Runge-Kutta steps need 4; skip_prk_steps=true does not"
            )
        begun = [*self._runge_kutta(timesteps[:4], alphas, stride)]
        return step_table([*begun, *self._plms(timesteps[3:], [0, 4, 8], alphas, stride)])

    def _plms(self, timesteps: Sequence[int], kept: list[int], alphas: Double, stride: int) -> Iterator[Step]:
        """Yield the multistep runs at `timesteps`; `kept` are the earlier runs whose outputs count."""
        twice = not kept
        for i, timestep in enumerate(timesteps, 12 if kept else 0):
            if twice and i == 1:
                again = self._step(timestep + stride, timestep, [(0, 0.5), (1, 0.5)], alphas, saved=True)
                yield replace(again, **self._at(timestep, alphas))
                continue
            outputs = [*kept[-3:], i]
            sizes = zip(reversed(outputs), ADAMS_BASHFORTH[len(outputs) - 1], strict=True)
            kept = outputs
            parts = [(i - run, size) for run, size in sizes]
            step = self._step(timestep, timestep - stride, parts, alphas)
            yield replace(step, save=(1.0,)) if twice and i == 0 else step

    def _runge_kutta(self, timesteps: Sequence[int], alphas: Double, stride: int) -> Iterator[Step]:
        for first, last in pairwise(timesteps):
            middle = last + stride // 2
            for run, at in enumerate((first, middle, middle, last)):
                there = at - (stride // 2 if run % 2 == 0 else 0)
                parts = [*enumerate(RUNGE_KUTTA[run])]
                step = self._step(first, there, parts, alphas, saved=run > 0)
                step = replace(step, **self._at(at, alphas))
                yield step if run else replace(step, save=(1.0,))

    def _step(
        self,
        timestep: int,
        there: int,
        outputs: Sequence[tuple[int, float]],
        alphas: Double,
        saved: bool = False,
    ) -> Step:
        """Return the step by the paper's formula (11), from the latents at `timestep` or the saved ones.

        `outputs` are how many runs ago each output was, and its coefficient.
        """
        if not 0 <= timestep < len(alphas):
            raise BadConfig(f"pndm's steps pass the last timestep {len(alphas) - 1}; other steps help")
        alpha = float(alphas[timestep])
        next_alpha = float(alphas[there]) if there >= 0 else self._last_alpha(alphas)
        if alpha == 0:
            raise BadConfig(f"pndm cannot start at timestep {timestep}, where all is noise")
        size = math.sqrt(alpha * (1 - alpha) * next_alpha) + alpha * math.sqrt(1 - next_alpha)
        noise, latent = (alpha - next_alpha) / size, math.sqrt(next_alpha / alpha)
        if self.diffusion.prediction_type == "v_prediction":
            latent, noise = latent + noise * math.sqrt(1 - alpha), noise * math.sqrt(alpha)
        sizes = dict(outputs)
        history = [noise * sizes.get(i, 0.0) for i in range(1, max(sizes) + 1)]
        return Step(
            latent=0.0 if saved else latent,
            saved=latent if saved else 0.0,
            output=noise * sizes.get(0, 0.0),
            history=tuple(history),
            kept_output=1.0,
            **self._at(timestep, alphas),
        )

    def _at(self, timestep: int, alphas: Double) -> dict[str, Any]:
        """Return what a step knows of the timestep at which the network runs."""
        alpha = float(alphas[timestep])
        clean, _ = self.diffusion.clean_and_noise(alpha, timestep)
        return {
            "timestep": timestep,
            "clean_latent": clean[0],
            "clean_output": clean[1],
            "signal": math.sqrt(alpha),
            "sigma": math.sqrt(1 - alpha),
        }

    def _last_alpha(self, alphas: Double) -> float:
        return 1.0 if self.set_alpha_to_one else float(alphas[0])

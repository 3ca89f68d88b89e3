"""Trajectory consistency distillation: Zheng et al. (2024, arXiv 2402.19159), as in diffusers' TCDScheduler.

Strategic stochastic sampling: each step goes further down than its end, and noise takes it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import Diffusion, settings_in
from msd.run.runtime.lcm import DEFAULTS, distilled_timesteps
from msd.run.runtime.step import Step, StepTable, first_step


@dataclass(frozen=True)
class Tcd:
    """The settings in a scheduler_config.json, with the defaults of diffusers' TCDScheduler.

    `eta` from 0, without noise, to 1 is an argument of that scheduler's `step`, and gamma in the paper.
    """

    diffusion: Diffusion = field(default_factory=lambda: Diffusion.from_config(DEFAULTS))
    original_inference_steps: int = 50
    eta: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.eta <= 1:
            raise BadConfig(f"eta {self.eta:g} should be from 0 to 1")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Tcd:
        """Return TCD with a configuration's settings, whatever class wrote it; others are ignored."""
        return Tcd(Diffusion.from_config({**DEFAULTS, **config}), **settings_in(Tcd, config))

    def table(self, steps: int, strength: float | None = None) -> StepTable:
        """Return the steps, or those for an image of a `strength`; raises BadConfig for impossible ones."""
        timesteps = distilled_timesteps(self.diffusion, self.original_inference_steps, steps)
        timesteps = timesteps[first_step(steps, strength) :]
        alphas = self.diffusion.alphas()
        pairs = zip(timesteps, [*timesteps[1:], None], strict=True)
        return StepTable([self._step(t, float(alphas[t]), self._ends(alphas, there)) for t, there in pairs])

    def _ends(self, alphas: Double, timestep: int | None) -> tuple[float, float]:
        """Return the alpha that a step goes down to, and that to which noise takes it back; None: it ends."""
        if timestep is None:
            return float(alphas[0]), float(alphas[0])
        lower = math.floor(np.float32(1 - self.eta) * np.float32(timestep))
        return float(alphas[lower]), float(alphas[timestep])

    def _step(self, timestep: int, alpha: float, ends: tuple[float, float]) -> Step:
        (clean_x, clean_o), (noise_x, noise_o) = self.diffusion.clean_and_noise(alpha, timestep)
        lower, upper = ends
        signal, noise = math.sqrt(upper), math.sqrt(upper / lower * (1 - lower))
        return Step(
            timestep=timestep,
            latent=signal * clean_x + noise * noise_x,
            output=signal * clean_o + noise * noise_o,
            clean_latent=clean_x,
            clean_output=clean_o,
            noise=math.sqrt(1 - upper / lower),
            signal=math.sqrt(alpha),
            sigma=math.sqrt(1 - alpha),
        )

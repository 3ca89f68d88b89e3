"""The arithmetic of deterministic diffusion on batches: z = signal · x + sigma · e at each timestep.

x are clean latents and e is noise. Song et al. (2020, arXiv 2010.02502); v after Salimans and Ho (2022, arXiv
2202.00512, appendix D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from msd.errors import BadConfig
from msd.files.wording import listed
from msd.run.runtime.diffusion import Diffusion
from msd.run.runtime.spacing import rounded_timesteps, trailing

CLEAN = -1
"""The timestep of clean latents, after the last one."""

PREDICTIONS = "epsilon", "v_prediction"
"""What networks predict, by diffusers' names: the noise e, or v = signal · e − sigma · x."""


@dataclass(frozen=True)
class Levels:
    """Signal and sigma of every timestep, as float32 tensors that begin with `CLEAN`'s."""

    signals: Any
    sigmas: Any

    @staticmethod
    def of(diffusion: Diffusion, device: str) -> Levels:
        """Return the levels of a diffusion; raises BadConfig for its impossible settings."""
        alphas = np.concatenate([[1.0], diffusion.alphas()])
        roots = np.sqrt(alphas), np.sqrt(1 - alphas)
        return Levels(*(torch.tensor(root, dtype=torch.float32, device=device) for root in roots))

    def signal(self, timesteps: Any) -> Any:
        """Return the signal at timesteps (B,), shape (B, 1, 1, 1)."""
        return self.signals[timesteps + 1].view(-1, 1, 1, 1)

    def sigma(self, timesteps: Any) -> Any:
        """Return the sigma at timesteps (B,), shape (B, 1, 1, 1)."""
        return self.sigmas[timesteps + 1].view(-1, 1, 1, 1)

    def at(self, timesteps: Any, clean: Any, noise: Any) -> Any:
        """Return the latents at timesteps (B,), of clean latents and noise (B, C, H, W)."""
        return self.signal(timesteps) * clean + self.sigma(timesteps) * noise

    def clean(self, prediction: str, timesteps: Any, latents: Any, output: Any) -> Any:
        """Return the clean latents that a network's `output` (B, C, H, W) means."""
        signal, sigma = self.signal(timesteps), self.sigma(timesteps)
        if prediction == "epsilon":
            return (latents - sigma * output) / signal
        return signal * latents - sigma * output

    def noise(self, prediction: str, timesteps: Any, latents: Any, output: Any) -> Any:
        """Return the noise that a network's `output` (B, C, H, W) means."""
        if prediction == "epsilon":
            return output
        return self.signal(timesteps) * output + self.sigma(timesteps) * latents

    def output(self, prediction: str, timesteps: Any, latents: Any, clean: Any) -> Any:
        """Return what a network should say of `latents` whose clean ones are `clean`; not at `CLEAN`."""
        signal, sigma = self.signal(timesteps), self.sigma(timesteps)
        noise = (latents - signal * clean) / sigma
        return noise if prediction == "epsilon" else signal * noise - sigma * clean

    def between(self, ends: tuple[Any, Any], timesteps: tuple[Any, Any], wanted: Any) -> Any:
        """Return the latents at timesteps `wanted` of DDIM's step from one end to the other.

        A step moves along latents of constant clean latents and noise, which its two `ends` (B, C, H, W), at
        two `timesteps` (B,) each, determine.
        """
        (early, late), (first, last) = ends, timesteps
        a, b = self.signal(first), self.sigma(first)
        c, d = self.signal(last), self.sigma(last)
        determinant = a * d - b * c
        clean, noise = (d * early - b * late) / determinant, (a * late - c * early) / determinant
        return self.at(wanted, clean, noise)

    def aim(self, ends: tuple[Any, Any], timesteps: tuple[Any, Any]) -> Any:
        """Return the clean latents that lead one step of DDIM from one end to the other.

        Salimans and Ho (2022, arXiv 2202.00512), algorithm 2, line 9.
        """
        (early, late), (first, last) = ends, timesteps
        ratio = self.sigma(last) / self.sigma(first)
        return (late - ratio * early) / (self.signal(last) - ratio * self.signal(first))


def timesteps(diffusion: Diffusion, steps: int) -> list[int]:
    """Return the timesteps that `steps` steps visit, noisiest first, and `CLEAN`; raises BadConfig.

    They are diffusers' "trailing" ones (Lin et al. 2023, arXiv 2305.08891, table 2): every other one is, to
    within rounding, of half as many steps.
    """
    diffusion.require_steps(steps)
    return [*rounded_timesteps(trailing(diffusion.num_train_timesteps, steps)), CLEAN]


def require_prediction(diffusion: Diffusion) -> None:
    """Raise BadConfig for a network that predicts something else than noise or v."""
    if diffusion.prediction_type not in PREDICTIONS:
        raise BadConfig(
            f"the scheduler's prediction_type is {diffusion.prediction_type!r}; networks that predict"
            f" {listed(PREDICTIONS, 'or')} can be distilled"
        )

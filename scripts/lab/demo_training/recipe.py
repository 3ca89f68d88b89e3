"""Every number that training the demo checkpoint depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One optimisation: AdamW, linear warm-up, then a cosine down to a hundredth of `rate` over `steps`.

    With `slow_until`, the rate follows the cosine of a run of `slow_steps` up to that step, and only from
    there on its own: a long stretch at high rates, then a short anneal.
    """

    steps: int
    batch: int
    rate: float
    warmup: int
    average: float
    """Decay of the exponential moving average of the weights, which is the result."""

    slow_until: int = 0
    slow_steps: int = 0

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        steps = self.slow_steps if step < self.slow_until else self.steps
        done = (step - self.warmup) / max(1, steps - self.warmup)
        return self.rate * (0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * done)))


@dataclass(frozen=True)
class TrainingRecipe:
    """The scenes to train on, the networks, and the number of steps."""

    scenes: int
    autoencoder: Stage
    denoiser: Stage
    seed: int = 0
    captions_per_scene: int = 4
    partial_captions: float = 0.15
    """Share of captions that leave out the position or the background."""
    empty_captions: float = 0.1
    """Share of captions replaced by the empty one, for classifier-free guidance (Ho & Salimans 2022)."""
    latent_noise: float = 0.2
    """Most noise, in standard deviations of the latents, that the decoder learns to see through."""
    edge_weight: float = 0.5
    kl_weight: float = 1e-4
    snr_limit: float = 5.0
    """γ of Min-SNR weighting (Hang et al. 2023, arXiv 2303.09556)."""


FULL = TrainingRecipe(
    scenes=120_000,
    autoencoder=Stage(steps=5_000, batch=64, rate=1e-3, warmup=200, average=0.998),
    denoiser=Stage(
        steps=8_200, batch=1024, rate=1e-3, warmup=500, average=0.9995, slow_until=6_898, slow_steps=16_000
    ),
)
SMOKE = TrainingRecipe(
    scenes=8,
    autoencoder=Stage(steps=2, batch=2, rate=1e-3, warmup=1, average=0.5),
    denoiser=Stage(steps=2, batch=4, rate=1e-3, warmup=1, average=0.5),
)
"""A few steps on a CPU that pass through all the code; the resulting checkpoint generates noise."""

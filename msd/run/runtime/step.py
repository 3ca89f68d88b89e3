"""A scheduler as a table: for each step a timestep and the coefficients of the next latents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from msd.errors import BadConfig

Float = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Step:
    """The coefficients of one step for latents x, the network's output o and the last clean latents p.

    The network's input is `scale`·x. The clean latents are c = `clean_latent`·x + `clean_output`·o, clipped
    to ±`clip` where that is set. The next latents are `latent`·x + `output`·o + `clean`·c + `previous`·p +
    `noise`·n, with normal noise n.

    Latents before this step are `signal`·k + `sigma`·n for known clean latents k: an image to begin with.
    """

    timestep: float
    latent: float = 0.0
    output: float = 0.0
    clean: float = 0.0
    clean_latent: float = 0.0
    clean_output: float = 0.0
    clip: float | None = None
    previous: float = 0.0
    noise: float = 0.0
    scale: float = 1.0
    signal: float = 1.0
    sigma: float = 0.0

    def apply(
        self, latent: Float, output: Float, previous: Float | None = None, noise: Float | None = None
    ) -> tuple[Float, Float]:
        """Return the next latents and the clean latents; float32 of the same shape."""
        next_latent: Float = np.float32(self.latent) * latent + np.float32(self.output) * output
        clean = self._clean(latent, output)
        for size, value in ((self.clean, clean), (self.previous, previous), (self.noise, noise)):
            if size and value is not None:
                next_latent += np.float32(size) * value
        return next_latent, clean

    def _clean(self, latent: Float, output: Float) -> Float:
        clean: Float = np.float32(self.clean_latent) * latent + np.float32(self.clean_output) * output
        return clean if self.clip is None else np.clip(clean, -self.clip, self.clip)


@dataclass(frozen=True)
class StepTable:
    """The steps of one image, in order; it begins with normal noise times `start`."""

    steps: Sequence[Step]
    start: float = 1.0

    def noised(self, index: int, clean: Float, noise: Float) -> Float:
        """Return known clean latents as they are before step `index`; after the last one, without noise.

        This is diffusers' `scheduler.add_noise`. Float32 of the shape of `clean`.
        """
        if index == len(self.steps):
            return clean.astype(np.float32)
        step = self.steps[index]
        noised: Float = np.float32(step.signal) * clean + np.float32(step.sigma) * noise
        return noised


def first_step(steps: int, strength: float | None) -> int:
    """Return the index of the step that an image of this `strength` begins with; None: no image, the first.

    After `get_timesteps` of diffusers' StableDiffusionImg2ImgPipeline. Raises BadConfig for a strength that
    is not above 0 and at most 1, or leaves no step.
    """
    if strength is None:
        return 0
    require_strength(strength)
    if int(steps * strength) < 1:
        least = math.ceil(1000 / steps) / 1000
        raise BadConfig(f"strength {strength:g} leaves no step of {steps}; it should be at least {least:g}")
    return steps - int(steps * strength)


def require_strength(strength: float) -> None:
    """Raise BadConfig for a strength that is not above 0 and at most 1."""
    if not 0 < strength <= 1:
        raise BadConfig(f"strength {strength:g} should be above 0 and at most 1")

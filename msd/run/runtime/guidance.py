"""Guidance makes an image follow its prompt more strongly; it needs its own inputs of the U-Net.

With two outputs, one of them without the prompt: Ho and Salimans, "Classifier-Free Diffusion Guidance"
(2022, arXiv 2207.12598). With one output of a U-Net that takes the guidance scale, as in latent consistency
models: Meng et al., "On Distillation of Guided Diffusion Models" (2022, arXiv 2210.03142).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle

Float = npt.NDArray[np.float32]
Mode = Literal["two passes", "batch 2", "embedding", "none"]

EMBEDDING_FACTOR = 1000.0
"""The guidance scale is embedded like a timestep, multiplied by this factor."""


@dataclass(frozen=True)
class Guidance:
    """The guidance of one image; a `scale` of 1 or less means none, unless it is embedded.

    "two passes" and "batch 2": two rows of the U-Net, one run after the other or in one run.
    """

    mode: Mode
    scale: float

    @staticmethod
    def of(bundle: Bundle, scale: float) -> Guidance:
        """Return the guidance of a bundle's images: the inputs of its denoiser decide the mode."""
        if bundle.wiring.takes("guidance"):
            return Guidance("embedding", scale)
        if scale <= 1:
            return Guidance("none", scale)
        return Guidance("two passes" if denoiser_batch(bundle) == 1 else "batch 2", scale)

    @property
    def rows(self) -> int:
        """The U-Net's rows in a step: 2 where the first is the one without the prompt."""
        return 2 if self.mode in ("two passes", "batch 2") else 1

    def prompts(self, prompt: str, negative_prompt: str) -> list[str]:
        """Return the text of each row; where there is only one, the negative prompt is not used."""
        return [negative_prompt, prompt] if self.rows == 2 else [prompt]

    @property
    def number(self) -> float:
        """The number whose sinusoids a denoiser takes for the scale.

        Diffusers' `get_guidance_scale_embedding` of scale − 1.
        """
        return EMBEDDING_FACTOR * (self.scale - 1)

    def combine(self, outputs: Float) -> Float:
        """Return the guided output of N images: (N · rows, …) → (N, …).

        With two rows, the second of each image is pushed away from its first.
        """
        if self.rows == 1:
            return outputs
        away, towards = outputs[::2], outputs[1::2]
        guided: Float = away + np.float32(self.scale) * (towards - away)
        return guided


def denoiser_batch(bundle: Bundle) -> int:
    """Return the rows of latents that one run of the denoiser takes."""
    call = bundle.wiring.denoiser
    named = {each.name for each in call.inputs if any(source.kind == "latent" for source in each.sources)}
    return next(spec.shape[0] for spec in bundle.component(call.component).inputs if spec.name in named)

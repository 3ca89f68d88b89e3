"""Guidance makes an image follow its prompt more strongly; it needs its own inputs of the U-Net.

With two outputs, one of them without the prompt: Ho and Salimans, "Classifier-Free Diffusion Guidance"
(2022, arXiv 2207.12598). With one output of a U-Net that takes the guidance scale, as in latent consistency
models: Meng et al., "On Distillation of Guided Diffusion Models" (2022, arXiv 2210.03142). With three of a
U-Net that edits an image, without both, with the image alone, and with both: Brooks et al.,
"InstructPix2Pix" (2022, arXiv 2211.09800), section 3.2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from msd.bundle import Bundle
from msd.run.runtime.arrays import Float

Mode = Literal["two passes", "batch 2", "three passes", "embedding", "none"]

EMBEDDING_FACTOR = 1000.0
"""The guidance scale is embedded like a timestep, multiplied by this factor."""


IMAGE_GUIDANCE = 1.5
"""The guidance by an image that is edited, where none is given: diffusers' default."""

ROWS = {"two passes": 2, "batch 2": 2, "three passes": 3}
"""The U-Net's rows in a step, by the mode."""


@dataclass(frozen=True)
class Guidance:
    """The guidance of one image; a `scale` of 1 or less means none, unless it is embedded.

    "two passes" and "batch 2": two rows of the U-Net, one run after the other or in one run. "three passes":
    three rows, and `image_scale` is the guidance by the image.
    """

    mode: Mode
    scale: float
    image_scale: float = IMAGE_GUIDANCE

    @staticmethod
    def of(bundle: Bundle, scale: float, image_scale: float | None = None) -> Guidance:
        """Return the guidance of a bundle's images: the inputs of its denoiser decide the mode."""
        if bundle.wiring.takes("guidance"):
            return Guidance("embedding", scale)
        if scale <= 1:
            return Guidance("none", scale)
        if bundle.wiring.edited:
            return Guidance("three passes", scale, IMAGE_GUIDANCE if image_scale is None else image_scale)
        return Guidance("two passes" if denoiser_batch(bundle) == 1 else "batch 2", scale)

    @property
    def rows(self) -> int:
        """The U-Net's rows in a step; of several the last alone has the prompt."""
        return ROWS.get(self.mode, 1)

    def prompts(self, prompt: str, negative_prompt: str) -> list[str]:
        """Return the text of each row; where there is only one, the negative prompt is not used."""
        return [*[negative_prompt] * (self.rows - 1), prompt]

    def of_image(self, value: Float, guides: bool) -> Float:
        """Return the rows of an image's value (1, …): zeros in the first where it `guides`."""
        rows = np.repeat(value, self.rows, 0)
        if guides and self.mode == "three passes":
            rows[0] = 0
        return rows

    @property
    def number(self) -> float:
        """The number whose sinusoids a denoiser takes for the scale.

        Diffusers' `get_guidance_scale_embedding` of scale − 1.
        """
        return EMBEDDING_FACTOR * (self.scale - 1)

    def combine(self, outputs: Float) -> Float:
        """Return the guided output of N images: (N · rows, …) → (N, …).

        With two rows, the second of each image is pushed away from its first; with three, as diffusers'
        StableDiffusionInstructPix2PixPipeline combines them.
        """
        if self.rows == 1:
            return outputs
        if self.rows == 3:
            without, image, both = (outputs[i::3] for i in range(3))
            change: Float = np.float32(self.image_scale) * (image - without)
            return without + change + np.float32(self.scale) * (both - image)
        away, towards = outputs[::2], outputs[1::2]
        guided: Float = away + np.float32(self.scale) * (towards - away)
        return guided


def denoiser_batch(bundle: Bundle) -> int:
    """Return the rows of latents that one run of the denoiser takes."""
    call = bundle.wiring.denoiser
    named = {each.tensor for each in call.outputs if each.kind == "prediction"}
    return next(spec.shape[0] for spec in bundle.component(call.component).outputs if spec.name in named)

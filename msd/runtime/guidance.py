"""Guidance: how strongly a picture is drawn towards its prompt, and what a U-Net needs for that.

Two outputs, one without the prompt: Ho and Salimans, "Classifier-Free Diffusion Guidance" (2022, arXiv
2207.12598). One output of a U-Net that is told the strength, as those of latent consistency models are: Meng
et al., "On Distillation of Guided Diffusion Models" (2022, arXiv 2210.03142).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from msd.bundle import Component
from msd.runtime.timestep import embed_timestep

Float = npt.NDArray[np.float32]
Mode = Literal["two passes", "batch 2", "embedding", "none"]

EMBEDDING = "guidance_embedding"
"""The U-Net's input for how strong guidance is."""

FINENESS = 1000.0
"""Guidance is embedded as if it were a timestep this much larger."""


@dataclass(frozen=True)
class Guidance:
    """How one picture is guided, and by how much; a `scale` of 1 or less is none, unless it is embedded.

    "two passes" and "batch 2": two rows of the U-Net, one run after the other or in one run.
    """

    mode: Mode
    scale: float

    @staticmethod
    def of(unet: Component, scale: float) -> Guidance:
        """Return how pictures are guided with this U-Net: the file decides."""
        if any(port.name == EMBEDDING for port in unet.inputs):
            return Guidance("embedding", scale)
        if scale <= 1:
            return Guidance("none", scale)
        batch = next(port.shape[0] for port in unet.inputs if port.name == "latent")
        return Guidance("two passes" if batch == 1 else "batch 2", scale)

    @property
    def rows(self) -> int:
        """How many of the U-Net's rows a step takes: 2 where there is one without the prompt, first."""
        return 2 if self.mode in ("two passes", "batch 2") else 1

    def prompts(self, prompt: str, negative_prompt: str) -> list[str]:
        """Return the text of each row; where there is but one, the negative prompt is not used."""
        return [negative_prompt, prompt] if self.rows == 2 else [prompt]

    def embedding(self, width: int) -> Float:
        """Return float32 (width,) for the U-Net's input `EMBEDDING`: sines, then cosines, of scale − 1.

        Diffusers' `get_guidance_scale_embedding`.
        """
        return embed_timestep(FINENESS * (self.scale - 1), width, cosine_first=False, frequency_shift=1)

    def combine(self, outputs: Float) -> Float:
        """Return what counts of `rows` outputs: (rows, …) → (1, …), the second pushed away from the first."""
        if self.rows == 1:
            return outputs
        away, towards = outputs[:1], outputs[1:]
        guided: Float = away + np.float32(self.scale) * (towards - away)
        return guided

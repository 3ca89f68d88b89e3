"""The sinusoidal embedding of a timestep, computed here in float32 because float16 could not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from msd.weights import Array

LONGEST_PERIOD = 10000.0


@dataclass(frozen=True)
class TimestepEmbedding:
    """Sinusoids of `width` numbers (Ho et al., arXiv 2006.11239), arranged as a U-Net was trained with."""

    width: int
    cosine_first: bool
    frequency_shift: float

    @staticmethod
    def of(unet: Mapping[str, Any]) -> TimestepEmbedding:
        """Return the one of a U-Net's configuration in a manifest."""
        return TimestepEmbedding(unet["channels"][0], unet["cosine_first"], unet["frequency_shift"])

    def __call__(self, timestep: float) -> Array:
        """Return float32 (width,)."""
        half = self.width // 2
        exponents = np.arange(half) / (half - self.frequency_shift)
        angles = timestep * (LONGEST_PERIOD**-exponents).astype(np.float32)
        waves = [np.cos(angles), np.sin(angles)]
        return np.concatenate(waves if self.cosine_first else waves[::-1]).astype(np.float32)

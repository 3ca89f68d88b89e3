"""The embedding of a timestep for the U-Net: sinusoids of many frequencies.

Ho et al., "Denoising Diffusion Probabilistic Models" (2020, arXiv 2006.11239), after the positions of Vaswani
et al. (2017, arXiv 1706.03762). Computed here in float32, because float16 cannot tell late timesteps apart.
"""

from __future__ import annotations

import math

import numpy as np

from msd.run.runtime.arrays import Float

PERIOD = 10000


def embed_timestep(
    timestep: float, width: int, cosine_first: bool = True, frequency_shift: float = 0.0
) -> Float:
    """Return the float32 sinusoids of a timestep, shape (width,): half of them cosines, half sines.

    `cosine_first` and `frequency_shift` are diffusers' `flip_sin_to_cos` and `freq_shift`.
    """
    half = width // 2
    angles = np.float32(timestep) * frequencies(width, frequency_shift)
    waves = (np.cos(angles), np.sin(angles)) if cosine_first else (np.sin(angles), np.cos(angles))
    embedding = np.zeros(width, np.float32)
    embedding[: 2 * half] = np.concatenate(waves)
    return embedding


def frequencies(width: int, shift: float = 0.0) -> Float:
    """Return the float32 frequencies of `width` sinusoids, shape (width // 2,), from 1 downwards."""
    half = width // 2
    exponents = -math.log(PERIOD) * np.arange(half, dtype=np.float32) / np.float32(half - shift)
    result: Float = np.exp(exponents.astype(np.float32))
    return result

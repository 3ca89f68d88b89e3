"""Normal noise that is the same on every platform."""

from __future__ import annotations

import numpy as np

from msd.run.runtime.arrays import Float


def noise(seed: int, shape: tuple[int, ...], step: int = 0) -> Float:
    """Return float32 normal noise: the same numbers for a seed, and a step, on every platform.

    NumPy's PCG64 stream through its ziggurat `standard_normal`, filled in the order of NHWC memory. Step 0 is
    the noise that an image starts from; the noise that a scheduler adds after a step has a stream of its own.
    """
    return _normal(np.random.SeedSequence([seed, step]) if step else np.random.SeedSequence(seed), shape)


def posterior_noise(seed: int, shape: tuple[int, ...], stream: int) -> Float:
    """Return float32 normal noise for latents of an encoded image; a seed has several `stream`s."""
    return _normal(np.random.SeedSequence([seed, 0, stream]), shape)


def _normal(seeds: np.random.SeedSequence, shape: tuple[int, ...]) -> Float:
    generator = np.random.Generator(np.random.PCG64(seeds))
    return generator.standard_normal(shape, dtype=np.float32)

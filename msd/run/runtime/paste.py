"""Puts the pixels that a mask keeps back over a generated image, with a soft edge in the repainted part."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from msd.run.runtime.arrays import Float, Pixels
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import InitialImage

FEATHER = 4
"""Pixels from what is kept to where nothing of the original is left."""


def paste(generated: Pixels, image: InitialImage) -> Pixels:
    """Return a generated image, uint8 (height, width, 3), with `image` itself where its mask keeps it.

    The formula is that of docs/image-to-image.md. Without a mask, the result is `generated`.
    """
    if image.mask is None:
        return generated
    depth = depths(image.mask[0, ..., 0])[..., None]
    mixed = depth * generated + (FEATHER - depth) * pixels(image.pixels[0]) + FEATHER // 2
    return (mixed // FEATHER).astype(np.uint8)


def depths(mask: Float) -> npt.NDArray[np.int32]:
    """Return how far each pixel of a mask (height, width) is from what it keeps, at most `FEATHER`.

    A diagonal neighbour is one pixel away; what lies beyond the image's edge is not kept.
    """
    inside = mask.astype(np.int32)
    depth = inside.copy()
    for _ in range(1, FEATHER):
        around = np.pad(inside, 1, constant_values=1)
        inside = np.lib.stride_tricks.sliding_window_view(around, (3, 3)).min((2, 3))
        depth += inside
    return depth

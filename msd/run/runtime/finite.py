"""Results of networks that are no numbers or no image: they stop the generation."""

from __future__ import annotations

import numpy as np

from msd.errors import NotFinite
from msd.graph.ir.weights import Array


def require_finite(values: Array, what: str) -> Array:
    """Return `values`; raises NotFinite, which says `what` they are, where one is NaN or infinite."""
    if wrong := np.size(values) - np.count_nonzero(np.isfinite(values)):
        raise NotFinite(
            f"{what} has {wrong} of {np.size(values)} values that are NaN or infinite, so no image was made;"
            " less guidance, the scheduler ddim, or a recipe with more bits may help"
        )
    return values


def require_picture(image: Array, what: str) -> Array:
    """Return an image (rows, columns, channels), all of its numbers finite.

    Raises NotFinite, which says `what` it is, also for one colour but for the edges, which padding changes:
    a decoder whose numbers overflow float16 computes that, and never draws a picture so flat.
    """
    require_finite(image, what)
    edge = max(1, min(image.shape[:2]) // 8)
    inner = image[edge:-edge, edge:-edge]
    if inner.shape[0] * inner.shape[1] > 1 and (inner == inner[:1, :1]).all():
        raise NotFinite(
            f"{what} is one colour throughout, so no image was made; --precision fp32, or a bundle converted"
            " anew, whose activations are scaled to float16, may help"
        )
    return image

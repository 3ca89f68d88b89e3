"""Results of networks that are no numbers: they stop the generation, for no image could follow."""

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

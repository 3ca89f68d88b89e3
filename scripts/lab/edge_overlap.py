"""How well the edges of one picture are those of another: intersection over union, with a tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

REACH = 1
"""How many pixels away, diagonally too, an edge counts as the same."""


def overlap(one: npt.NDArray[Any], other: npt.NDArray[Any], reach: int = REACH) -> float:
    """Return intersection over union, 0 to 1, of two images' edges (H, W) of 0 and 1; 1 if neither has any.

    A pixel is in the intersection if the other image has one within `reach`; the two images' pixels there
    count half each. With a reach of 0, that is plain intersection over union.
    """
    first, second = one.astype(bool), other.astype(bool)
    near = np.array([_widened(second, reach)[first].sum(), _widened(first, reach)[second].sum()])
    shared = near.sum() / 2
    union = shared + first.sum() + second.sum() - near.sum()
    return float(shared / union) if union else 1.0


def _widened(edges: npt.NDArray[np.bool_], reach: int) -> npt.NDArray[np.bool_]:
    from scipy.ndimage import binary_dilation

    square = np.ones((2 * reach + 1, 2 * reach + 1), bool)
    return np.asarray(binary_dilation(edges, square))

"""What Winograd's convolutions F(m x m, 3x3) save and cost, counted: Table 2 of arXiv 2304.11267.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (arXiv 1509.09308): m x m results come
from (m+2) x (m+2) products instead of 9 m x m, of as many inputs and weights.
"""

from __future__ import annotations

TILES = (2, 4, 6, 8)
"""The tile sizes m that kernels have."""


def saved_flops(tile: int) -> float:
    """Return how many times fewer multiplications there are; 1 for tile 0, which is no Winograd."""
    return 9 * tile**2 / (tile + 2) ** 2 if tile else 1.0


def tensor_growth(tile: int) -> float:
    """Return how many times larger the transformed input is than the input."""
    return (tile + 2) ** 2 / tile**2 if tile else 1.0


def weight_growth(tile: int) -> float:
    """Return how many times more weights there are."""
    return (tile + 2) ** 2 / 9 if tile else 1.0

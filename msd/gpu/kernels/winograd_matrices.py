"""Winograd's minimal filtering, F(m, 3): the matrices of an output tile of m numbers and a filter of three.

y = A^T ((G g) * (B^T d)) with d of m + 2 numbers, y[i] = sum_k d[i + k] g[k]; in two dimensions from both
sides (Lavin and Gray, arXiv 1509.09308). The matrices are Toom's and Cook's, transposed: polynomials of
degree < m and < 3 are multiplied by their values at m + 1 points and at infinity. They are exact fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array


POINTS: dict[int, tuple[float, ...]] = {
    2: (1,),
    4: (5 / 8, 3 / 2),
    6: (1 / 2, 1, 2),
    8: (3 / 8, 7 / 8, 5 / 4, 5 / 2),
}
"""The positive points by the tile; their negatives and zero belong to them.

Of all multiples of an eighth, those with nearly the least sum_j |A_j|^2 |B_j|^2 |G_j|^2 (columns of A^T,
rows of B^T and G), to which the variance of the rounding errors is proportional.
"""

Rows = list[list[Fraction]]


@dataclass(frozen=True)
class Winograd:
    """`output` is A^T, m x (m+2); `filter` is G, (m+2) x 3; `input` is B^T, (m+2) x (m+2)."""

    output: Rows
    filter: Rows
    input: Rows


@cache
def winograd_matrices(tile: int) -> Winograd:
    """Return the matrices for output tiles of `tile`: 2, 4, 6 or 8.

    Powers of two are moved between rows, which costs no accuracy: rows of B^T have a length and rows of G a
    sum of absolute values of at most one, so that transformed inputs and filters are about as large as
    before, and their products as the result. f16 can then hold all of them.
    Raises ValueError for other tiles.
    """
    if tile not in POINTS:
        raise ValueError(f"Winograd's tiles here are {sorted(POINTS)}, not {tile}")
    positive = [Fraction(point) for point in POINTS[tile]]
    return from_points(tile, [Fraction(0), *(sign * point for point in positive for sign in (1, -1))])


def from_points(tile: int, points: list[Fraction]) -> Winograd:
    """Return the matrices of `tile` + 1 different points."""
    output = [[point**i for point in points] + [Fraction(i == tile - 1)] for i in range(tile)]
    filter_, input_ = [], []
    for j, point in enumerate(points):
        others = points[:j] + points[j + 1 :]
        whole = prod((point - one for one in others), start=Fraction(1))
        filter_.append([point**k / whole for k in range(3)])
        input_.append([*_polynomial(others), Fraction(0)])
    filter_.append([Fraction(0), Fraction(0), Fraction(1)])
    input_.append(_polynomial(points))
    return _scaled(output, filter_, input_)


def as_array(rows: Rows) -> Array:
    """Return a matrix in float64."""
    return np.array([[float(number) for number in row] for row in rows])


def _polynomial(roots: list[Fraction]) -> list[Fraction]:
    """Return the coefficients of the product of x - root, the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [a - root * b for a, b in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return coefficients


def _scaled(output: Rows, filter_: Rows, input_: Rows) -> Winograd:
    sums = [_power(sum((abs(n) for n in row), start=Fraction(0))) for row in filter_]
    lengths = [_power(Fraction(sqrt(sum(float(n) ** 2 for n in row)))) for row in input_]
    return Winograd(
        output=[[n * sums[j] * lengths[j] for j, n in enumerate(row)] for row in output],
        filter=[[n / sums[j] for n in row] for j, row in enumerate(filter_)],
        input=[[n / lengths[j] for n in row] for j, row in enumerate(input_)],
    )


def _power(number: Fraction) -> Fraction:
    """Return the least power of two that is not below a number."""
    power = Fraction(1)
    while power < number:
        power *= 2
    while power / 2 >= number:
        power /= 2
    return power

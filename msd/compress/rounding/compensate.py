"""Rounding in which each weight makes up for the errors of those before it.

A layer computes W x. With C the covariance of its inputs, the rounded weights Ŵ = W - D leave the error
Σ d C dᵀ over the rows d of D, and a mean error D E[x], which the bias takes. With C = R Rᵀ, R upper
triangular, a row's error is

    Σⱼ (dⱼ Rⱼⱼ + tⱼ)²,    tⱼ = Σᵢ﹤ⱼ dᵢ Rᵢⱼ,

so weight j is best rounded from wⱼ + tⱼ / Rⱼⱼ once those before it are: GPTQ (arXiv:2210.17323; OBQ,
arXiv:2208.11580) without inverting C, which is Babai's nearest plane (arXiv:2507.18553).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from msd.compress.encoding.quantize import RANGES, grid_scale
from msd.graph.ir.weights import Array

DAMPING = 0.01
"""What is added to the variance of each input, as a share of the inputs' mean square."""

CLIPS = {"int8": (1.0,), "int4": (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6)}
"""The scales to try, as shares of the one with which nothing is clipped; int8 gains nothing from others."""

LARGEST = 1 << 24
"""The most errors in memory at once, in float64."""

AT_ONCE = 64
"""Weights of a row between two products with all errors before them."""

SMALLEST_SCALE = 1e-11
"""The least scale, which keeps rows of zeros apart from divisions by zero."""


@dataclass(frozen=True)
class Rounded:
    """A layer's `stored` integers, int8 (outputs, inputs), their scales, float32, and its mean error.

    `scale` has one number, or one for each output; `mean`, float64 (outputs,), is what the bias lacks.
    """

    stored: Array
    scale: Array
    mean: Array

    @property
    def values(self) -> Array:
        """The weights that the integers stand for, float32 (outputs, inputs)."""
        values: Array = self.stored * np.broadcast_to(self.scale, len(self.stored))[:, None]
        return values


@dataclass(frozen=True)
class InputPart:
    """Some `inputs` of a layer, as indices, with their covariance and their mean square, float64."""

    inputs: Array
    covariance: Array
    mean_square: float

    def factor(self) -> Array:
        """Return R, upper triangular, with R Rᵀ the damped covariance."""
        damped = self.covariance.copy()
        damped[np.diag_indices_from(damped)] += max(DAMPING * self.mean_square, 1e-12)
        return np.ascontiguousarray(np.linalg.cholesky(damped[::-1, ::-1])[::-1, ::-1])


def compensated(
    weights: Array, parts: list[InputPart], mean: Array, store: str, per_row: bool = True
) -> Rounded:
    """Return `weights`, (outputs, inputs), rounded to `store`, one part of the inputs after the other.

    `mean`, (inputs,), are the inputs' means. The scale is the one of `CLIPS` with the least error, for each
    output or, unless `per_row`, for the layer. Weights that are rounded already stay as they are.
    """
    real = np.asarray(weights, np.float64)
    largest = np.abs(real).max(axis=1, initial=0)
    whole = np.maximum((largest if per_row else largest.max(initial=0)) / RANGES[store][1], SMALLEST_SCALE)
    grid = grid_scale(np.asarray(weights, np.float32) if per_row else np.reshape(weights, (1, -1)), store)
    whole = np.where(grid > 0, grid, whole)
    scales = np.asarray(np.outer(CLIPS[store], np.broadcast_to(whole, len(real))), np.float32)
    stored = np.zeros((*scales.shape, real.shape[1]), np.int8)
    losses = np.zeros(scales.shape)
    for part in parts:
        factor = part.factor()
        for rows in _pieces(len(real), len(scales) * len(factor)):
            some = real[rows][:, part.inputs]
            stored[:, rows, part.inputs], loss = _swept(some, scales[:, rows], store, factor)
            losses[:, rows] += loss
    best = losses.argmin(axis=0) if per_row else np.full(len(real), losses.sum(axis=1).argmin())
    every = np.arange(len(real))
    chosen, scale = stored[best, every], scales[best, every]
    missed = real - chosen * scale[:, None].astype(np.float64)
    return Rounded(chosen, scale if per_row else scale[:1], missed @ mean)


def _pieces(rows: int, each: int) -> Iterator[slice]:
    """Yield slices of rows with about `LARGEST` numbers, each of which stands for `each`."""
    step = max(1, LARGEST // each)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _swept(weights: Array, scales: Array, store: str, factor: Array) -> tuple[Array, Array]:
    """Return the integers of weights (outputs, inputs) for each of `scales` (n, outputs), and the errors."""
    low, high = RANGES[store]
    step, shape = scales.astype(np.float64), (*scales.shape, weights.shape[1])
    missed, stored, loss = np.zeros(shape), np.zeros(shape, np.int8), np.zeros(scales.shape)
    for start in range(0, weights.shape[1], AT_ONCE):
        stop = min(start + AT_ONCE, weights.shape[1])
        before = missed[:, :, :start] @ factor[:start, start:stop]
        for j in range(start, stop):
            pivot, owed = factor[j, j], before[:, :, j - start]
            integers = np.clip(np.rint((weights[:, j] + owed / pivot) / step), low, high)
            error = weights[:, j] - step * integers
            stored[:, :, j], missed[:, :, j] = integers, error
            loss += np.square(error * pivot + owed)
            before[:, :, j - start + 1 :] += error[:, :, None] * factor[j, j + 1 : stop]
    return stored, loss

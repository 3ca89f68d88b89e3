"""Signal-to-noise ratios of results against a reference, in decibels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from msd.graph.ir.weights import Array


def psnr(reference: Array, result: Array) -> float:
    """Return 20·log10(max|reference| / rmse) in dB for two arrays with the same number of elements.

    Infinity for equal arrays, minus infinity where only the reference is all zeros.
    """
    expected, actual = (np.asarray(array, np.float64).reshape(-1) for array in (reference, result))
    rmse = float(np.sqrt(np.mean((expected - actual) ** 2)))
    if rmse == 0:
        return math.inf
    peak = float(np.abs(expected).max())
    return 20 * math.log10(peak / rmse) if peak else -math.inf


@dataclass
class ErrorSum:
    """The error of results against a reference, accumulated over any number of arrays."""

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    """The largest absolute difference; `signal` and `noise` sum the squares of the reference and of the
    differences."""

    def add(self, reference: Array, result: Array) -> None:
        """Add another array; raises ValueError for results that are infinite or NaN."""
        expected, actual = (np.asarray(array, np.float64).reshape(-1) for array in (reference, result))
        difference = expected - actual
        if not np.isfinite(difference).all():
            raise ValueError("results are infinite or NaN")
        self.signal += float(expected @ expected)
        self.noise += float(difference @ difference)
        self.largest = max(self.largest, float(np.abs(difference).max(initial=0)))

    @property
    def snr(self) -> float:
        """10·log10(signal / noise) in dB: infinity without noise, minus infinity for noise alone."""
        return decibels(self.signal, self.noise)


def decibels(signal: float, noise: float) -> float:
    """Return 10·log10(signal / noise) of two sums of squares: infinity without noise."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf

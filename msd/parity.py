"""How far results are from others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from msd.ir.weights import Array


def psnr(reference: Array, found: Array) -> float:
    """Return 20·log10(max|reference| / rmse) in dB for arrays of as many elements, whatever their shapes.

    Infinite for equal arrays, minus infinity where only the reference is all zeros.
    """
    wanted, got = (np.asarray(array, np.float64).reshape(-1) for array in (reference, found))
    rmse = float(np.sqrt(np.mean((wanted - got) ** 2)))
    if rmse == 0:
        return math.inf
    peak = float(np.abs(wanted).max())
    return 20 * math.log10(peak / rmse) if peak else -math.inf


@dataclass
class ErrorSum:
    """How far results are from a reference, summed over any number of arrays."""

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    """The sum of the reference's squares, that of the differences', and the largest difference."""

    def add(self, reference: Array, found: Array) -> None:
        """Count another array in; raises ValueError for results that are infinite or no numbers."""
        wanted, got = (np.asarray(array, np.float64).reshape(-1) for array in (reference, found))
        difference = wanted - got
        if not np.isfinite(difference).all():
            raise ValueError("results are infinite or no numbers")
        self.signal += float(wanted @ wanted)
        self.noise += float(difference @ difference)
        self.largest = max(self.largest, float(np.abs(difference).max(initial=0)))

    @property
    def snr(self) -> float:
        """10·log10(signal / noise) in dB: infinite without noise, minus infinity for noise alone."""
        return decibels(self.signal, self.noise)


def decibels(signal: float, noise: float) -> float:
    """Return 10·log10(signal / noise) of two sums of squares."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf

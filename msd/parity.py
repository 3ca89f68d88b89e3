"""How far one result is from another."""

from __future__ import annotations

import math

import numpy as np

from msd.weights import Array


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

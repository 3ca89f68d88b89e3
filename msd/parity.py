"""How far one result is from another."""

from __future__ import annotations

import math

import numpy as np

from msd.weights import Array


def psnr(reference: Array, found: Array) -> float:
    """Return 20·log10(max|reference| / rmse) in dB, infinite for equal arrays of the same number of elements."""
    wanted = np.asarray(reference, np.float64).reshape(-1)
    rmse = float(np.sqrt(np.mean((wanted - np.asarray(found, np.float64).reshape(-1)) ** 2)))
    return 20 * math.log10(float(np.abs(wanted).max()) / rmse) if rmse else math.inf

"""Quantisation to int8 or int4, with one scale for each slice of the first axis or one for the tensor.

It is symmetric: real = scale · stored. int8 has the narrow range [-127, 127], as CONV_2D's kernels require;
int4 has the full range [-8, 7]. One of these algorithms chooses the scale:

    min-max   the largest number of a slice becomes the largest integer
    mse       the clip in `CLIPS` with the least squared error; the first is "min-max". Slices of int4 that
              are multiples of one number already keep it: what was trained rounded stays as it is
    rms       a fixed fraction of the root mean square; ai-edge-quantizer calls it MSE gptq      on a
    calibration, errors compensate each other (msd/compress/rounding); tables as "auto" without one auto
    "gptq" with a calibration, else "min-max" for int8 and "mse" for int4

"min-max" and "rms" equal ai-edge-quantizer 0.10's to the last bit, for int8 and int4
(algorithms/uniform_quantize: naive_min_max_quantize.py, mse.py, uniform_quantize_tensor.py), except
where all squares are zero or one is infinite in float32: their scale is 0 or infinite, ours is "min-max"'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from msd.graph.ir.weights import Array, Weights

RANGES = {"int8": (-127, 127), "int4": (-8, 7)}
RMS_STEP = {"int8": 0.05408, "int4": 0.37755}
"""The scale as a fraction of the root mean square."""

SMALLEST_BOUND = 1e-9
"""The least value for the largest number of a slice: it keeps scales above zero and normal in float32."""

CLIPS = np.linspace(1, 0.25, 26, dtype=np.float32)
"""The clips that "mse" tries, as fractions of the largest number."""

ON_GRID = 0.055
"""How far from an integer, in steps, a rounded weight may be: bfloat16 moves 7 steps by up to 7/256, and the
largest weight, by which steps are counted, as much."""

FEW = 64
"""The weights of a slice that tell most slices that are not rounded."""

BUFFER = 256
"""NumPy's buffer, in elements, while rows are divided: it fills a larger one with a scale for each weight."""

PLAIN = {"int8": "min-max", "int4": "mse"}
"""The algorithm where there is no calibration for a better one."""

COMPENSATED = ("auto", "gptq")
"""The algorithms that a calibration decides (msd/compress/rounding); the rest is rounded by `PLAIN`."""

Encode = Callable[[Weights], tuple[Array, Array]]
"""Returns the stored values of weights, and their scales."""


def plain_algorithm(store: str, algorithm: str) -> str:
    """Return the algorithm that rounds where no calibration decides: "min-max", "mse" or "rms"."""
    return PLAIN[store] if algorithm in COMPENSATED else algorithm


@cache
def encoder(store: str, granularity: str = "channel", algorithm: str = "min-max") -> Encode:
    """Return the function that maps weights of any float dtype to (int8 values, float32 scales).

    int4 values are int8 too, within [-8, 7]; the writer packs two in a byte. `granularity` "channel" gives a
    scale for each slice of axis 0, "tensor" a single one. The same arguments return the same function.
    """
    algorithm = plain_algorithm(store, algorithm)
    scales = {"min-max": _min_max, "mse": _least_error, "rms": _root_mean_square}[algorithm]

    def encode(weights: Weights) -> tuple[Array, Array]:
        blocks = weights.blocks() if granularity == "channel" else [(0, weights.load()[None])]
        stored = np.empty(weights.shape if granularity == "channel" else (1, *weights.shape), np.int8)
        scale = np.empty(len(stored), np.float32)
        for start, block in blocks:
            part = slice(start, start + len(block))
            rows = np.ascontiguousarray(block, np.float32).reshape(len(block), -1)
            scale[part] = scales(rows, store)
            rounded = _rounded(rows, scale[part], None if algorithm == "min-max" else RANGES[store])
            stored[part] = rounded.reshape(block.shape)
        return stored.reshape(weights.shape), scale

    return encode


def _rounded(rows: Array, scale: Array, bounds: tuple[int, int] | None) -> Array:
    """Return the nearest integers as float32, within `bounds` if the scale does not keep them there."""
    before = np.setbufsize(BUFFER)
    stored: Array = rows / scale[:, None]
    np.setbufsize(before)
    np.rint(stored, out=stored)
    return np.clip(stored, *bounds, out=stored) if bounds else stored


def _largest(rows: Array) -> Array:
    amax: Array = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0))
    return np.maximum(amax, np.float32(SMALLEST_BOUND), out=amax)


def _min_max(rows: Array, store: str) -> Array:
    scale: Array = _largest(rows) / np.float32(RANGES[store][1])
    return scale


def _root_mean_square(rows: Array, store: str) -> Array:
    with np.errstate(over="ignore"):
        scale = np.float32(RMS_STEP[store]) * np.sqrt(np.mean(rows**2, axis=1))
    return np.where((scale > 0) & np.isfinite(scale), scale, _min_max(rows, store))


def _least_error(rows: Array, store: str) -> Array:
    whole = _min_max(rows, store)
    grid = grid_scale(rows, store)
    kept = [np.where(grid > 0, grid, whole)] if grid.any() else []
    best, least = whole, np.full(len(rows), np.inf)
    for tried in (*(whole * clip for clip in CLIPS), *kept):
        scale = np.maximum(tried, np.float32(SMALLEST_BOUND / RANGES[store][1]))
        missed = _rounded(rows, scale, RANGES[store])
        missed *= scale[:, None]
        missed -= rows
        error = np.einsum("ij,ij->i", missed, missed)
        best = np.where(error < least, scale, best)
        least = np.minimum(error, least)
    return best


def grid_scale(rows: Array, store: str) -> Array:
    """Return the float32 scales of those rows (n, k) that are integers times a number; 0 for all others.

    Only int4 is looked at, whose largest integer in a row is one of 8.
    """
    found = np.zeros(len(rows), np.float32)
    if store != "int4":
        return found
    low, high = RANGES[store]
    largest = _largest(rows)
    for most in (high, -low, *range(high - 1, 0, -1)):
        scale = largest / np.float32(most)
        likely = np.flatnonzero((found == 0) & _on_grid(rows[:, :FEW], scale, high))
        on_grid = _on_grid(rows[likely], scale[likely], high)
        found[likely[on_grid]] = scale[likely[on_grid]]
    return found


def _on_grid(rows: Array, scale: Array, high: int) -> Array:
    steps = rows / scale[:, None]
    nearest = np.rint(steps)
    on_grid: Array = (np.abs(steps - nearest) <= ON_GRID).all(1) & (nearest.max(axis=1, initial=0) <= high)
    return on_grid

"""Arrays and GPU values of the kernels' tests."""

from __future__ import annotations

import re

import numpy as np

from msd.gpu.gpu import Gpu
from msd.gpu.value import Dispatch, Value
from msd.graph.ir.weights import Array

GPU = Gpu()


def random(*shape: int, seed: int = 0) -> Array:
    """Return f32 numbers of the normal distribution."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def value(name: str, count: int) -> Value:
    """Return an activation in f32."""
    return Value(name, "f32", count)


def decibels(result: Array, expected: Array) -> float:
    """Return the signal-to-noise ratio; infinite where the arrays are equal."""
    signal = np.asarray(expected, np.float64).reshape(-1)
    noise = np.asarray(result, np.float64).reshape(-1) - signal
    if not noise.any():
        return np.inf
    return float(10 * np.log10(np.square(signal).sum() / np.square(noise).sum()))


def only_types_differ(full: Dispatch, half: Dispatch) -> bool:
    """Return whether the shader for f16 activations is that for f32 with other types, none of them of a sum.

    SwiftShader has no shader-f16; whole networks of such shaders run in test_halves.py.
    """
    lines = zip(
        full.kernel.wgsl.splitlines(),
        half.kernel.wgsl.removeprefix("enable f16;\n").splitlines(),
        strict=True,
    )
    changed = [(a, b) for a, b in lines if a != b]
    return half.kernel.wgsl.startswith("enable f16;\n") and all(
        a == b.replace("f16", "f32") and not re.search(r"fma|sum|exp|maximum|\+=", b) for a, b in changed
    )

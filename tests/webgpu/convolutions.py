"""Convolutions for tests: operations on random numbers, and what NumPy computes for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.filters import pack_filter, vector_value
from msd.gpu.operations import Conv2D, Epilogue, Gate, Stored
from msd.gpu.value import Value
from msd.graph.ir.weights import Array

STANDARD = Gpu()
CONSTANTS = ("bias", "slopes")


@dataclass(frozen=True)
class Case:
    """An operation with its inputs and the result in float64."""

    op: Conv2D
    inputs: dict[Value, Array]
    expected: Array


def case(
    size: tuple[int, int, int, int],
    outputs: int,
    kernel: tuple[int, int] = (1, 1),
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    upsample: int = 1,
    stored: Stored = "int8",
    activation: str = "NONE",
    extras: str = "",
    seed: int = 0,
    gpu: Gpu = STANDARD,
) -> Case:
    """Return a convolution of (batch, height, width, channels) random pixels.

    `pad` is top, left, bottom, right. `extras` names parts of the epilogue: scale, bias,
    slopes, vector, residual, gate (of GELU), tanh_gate (of its tanh form).
    """
    rng = np.random.default_rng(seed)
    batch, height, width, channels = size
    names = extras.split()
    weights, scale = _weights(rng, (outputs, *kernel, channels), stored, "scale" in names)
    x = rng.standard_normal(size).astype(np.float32)
    sums = _correlate(_spread(x, upsample, pad), weights, stride, dilation) * (1 if scale is None else scale)
    out_height, out_width = sums.shape[1:3]
    gate = _gate(names)
    results = outputs // 2 if gate else outputs
    arrays = {
        "bias": rng.standard_normal(outputs).astype(np.float32),
        "slopes": np.random.default_rng(seed + 1).uniform(-0.5, 1.5, outputs).astype(np.float32),
        "vector": rng.standard_normal((batch, outputs)).astype(np.float32),
        "residual": rng.standard_normal((batch, out_height, out_width, results)).astype(np.float32),
    }
    given = {name: array for name, array in arrays.items() if name in names}
    values = {n: Value(n, "f32", a.size) for n, a in given.items() if n not in CONSTANTS}
    xs = Value("x", "f32", x.size)
    held = {name: vector_value(arrays[name], name) for name in CONSTANTS if name in names}
    op = Conv2D(
        x=xs,
        filter=pack_filter(lambda: weights, stored, weights[0].size, outputs, scale, gpu, "w"),
        y=Value("y", "f32", sums[..., 0].size * results),
        batch=batch,
        height=height,
        width=width,
        channels=channels,
        out_height=out_height,
        out_width=out_width,
        kernel=kernel,
        stride=stride,
        pad=pad[:2],
        dilation=dilation,
        upsample=upsample,
        epilogue=Epilogue(activation=activation, **held, **values, gate=gate),  # type: ignore[arg-type]
    )
    inputs = {xs: x} | {value: given[name] for name, value in values.items()}
    return Case(op, inputs, _finish(sums, given, activation, gate))


def snr(expected: Array, got: Array) -> float:
    """Return the ratio of signal to error in dB."""
    error = np.square(expected.reshape(-1) - got.astype(np.float64)).sum()
    return float(10 * np.log10(np.square(expected).sum() / max(error, 1e-300)))


def activate(v: Array, activation: str) -> Array:
    """Return an activation in float64."""
    cube = np.clip(v, -10, 10) ** 3
    return {
        "NONE": v,
        "RELU": np.maximum(v, 0),
        "RELU6": np.clip(v, 0, 6),
        "SILU": v / (1 + np.exp(-np.clip(v, -700, 700))),
        "GELU": v * (1 + np.vectorize(math.erf)(v / math.sqrt(2))) / 2,
        "TANH_GELU": v * (1 + np.tanh(np.sqrt(2 / np.pi) * (np.clip(v, -10, 10) + 0.044715 * cube))) / 2,
    }[activation]


def _gate(extras: list[str]) -> Gate | None:
    return "GELU" if "gate" in extras else "TANH_GELU" if "tanh_gate" in extras else None


def _weights(
    rng: np.random.Generator, shape: tuple[int, ...], stored: Stored, scaled: bool
) -> tuple[Array, Array | None]:
    scale = rng.uniform(0.5, 2, shape[0]).astype(np.float32) / 50 if scaled else None
    if stored in ("int8", "int4"):
        low, high = (-128, 128) if stored == "int8" else (-8, 8)
        return rng.integers(low, high, shape).astype(np.int8), scale
    return rng.standard_normal(shape).astype(np.float16 if stored == "f16" else np.float32), scale


def _spread(x: Array, upsample: int, pad: tuple[int, int, int, int]) -> Array:
    x = x.repeat(upsample, axis=1).repeat(upsample, axis=2).astype(np.float64)
    top, left, bottom, right = pad
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))


def _correlate(x: Array, weights: Array, stride: tuple[int, int], dilation: tuple[int, int]) -> Array:
    outputs, kernel_height, kernel_width, _ = weights.shape
    high = (x.shape[1] - dilation[0] * (kernel_height - 1) - 1) // stride[0] + 1
    wide = (x.shape[2] - dilation[1] * (kernel_width - 1) - 1) // stride[1] + 1
    sums = np.zeros((x.shape[0], high, wide, outputs))
    for ky in range(kernel_height):
        for kx in range(kernel_width):
            y0, x0 = ky * dilation[0], kx * dilation[1]
            part = x[:, y0 : y0 + high * stride[0] : stride[0], x0 : x0 + wide * stride[1] : stride[1]][
                :, :high, :wide
            ]
            sums += part @ weights[:, ky, kx].astype(np.float64).T
    return sums


def _finish(sums: Array, given: dict[str, Array], activation: str, gate: Gate | None) -> Array:
    sums = sums + given.get("bias", 0.0)
    if "vector" in given:
        sums = sums + given["vector"][:, None, None]
    sums = activate(sums, activation)
    if "slopes" in given:
        sums = np.where(sums < 0, sums * given["slopes"], sums)
    if gate:
        blocks = sums.reshape(*sums.shape[:3], -1, 2, 4)
        sums = (blocks[..., 0, :] * activate(blocks[..., 1, :], gate)).reshape(*sums.shape[:3], -1)
    return sums + given.get("residual", 0.0)


def other(op: Conv2D, **changes: object) -> Conv2D:
    """Return the operation with changes."""
    return replace(op, **changes)  # type: ignore[arg-type]

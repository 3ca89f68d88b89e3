"""Group and layer norms equal NumPy's, small images and slabs of large ones, far from zero too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.normalization import (
    SMALL,
    choose_slabs,
    group_statistics,
    normalize_groups,
    normalize_layers,
)
from msd.gpu.operations import GroupNorm, LayerNorm
from msd.gpu.value import Value
from msd.graph.ir.weights import Array
from tests.webgpu.arrays import GPU, decibels, only_types_differ, random, value
from tests.webgpu_device import constant, run

EPSILON = 1e-5


def group_norm(batch: int, pixels: int, channels: int, groups: int) -> GroupNorm:
    scale, shift = random(channels, seed=1), random(channels, seed=2)
    return GroupNorm(
        x=value("x", batch * pixels * channels),
        y=value("y", batch * pixels * channels),
        batch=batch,
        pixels=pixels,
        channels=channels,
        groups=groups,
        epsilon=EPSILON,
        scale=constant("scale", scale),
        shift=constant("shift", shift),
    )


def image(op: GroupNorm, mean: float = 0.0) -> Array:
    """Return images whose channels have means and deviations of their own."""
    spread = 0.5 + np.abs(random(op.channels, seed=3))
    return random(op.batch, op.pixels, op.channels) * spread + random(op.channels, seed=4) + np.float32(mean)


def normalized(op: GroupNorm, x: Array) -> Array:
    """Return the normalised images in f64, before the activation."""
    split = x.astype(np.float64).reshape(op.batch, op.pixels, op.groups, -1)
    mean, variance = split.mean((1, 3), keepdims=True), split.var((1, 3), keepdims=True)
    plain = ((split - mean) / np.sqrt(variance + op.epsilon)).reshape(x.shape)
    scale = 1.0 if op.scale is None or op.scale.load is None else op.scale.load()
    shift = 0.0 if op.shift is None or op.shift.load is None else op.shift.load()
    return plain * scale + shift


def check(op: GroupNorm, mean: float = 0.0, gpu: Gpu = GPU) -> int:
    x = image(op, mean)
    dispatches = normalize_groups(op, gpu)
    (y,) = run(dispatches, {op.x: x}, [op.y])
    assert decibels(y, normalized(op, x)) >= 110
    return len(dispatches)


# (batch, pixels, channels, groups): SD's 10 … 80 channels a group, odd ones, one group, groups of one
# channel, more columns than invocations in one group and in a group that vectors cross.
SHAPES = [
    *((1, 64, 320, 32), (2, 100, 640, 32), (1, 64, 960, 32), (1, 70, 1280, 32), (3, 16, 1920, 32)),
    *((1, 33, 2560, 32), (3, 35, 12, 4), (2, 9, 7, 7), (1, 65, 60, 2), (1, 17, 2052, 2), (2, 3, 1030, 2)),
    *((1, 1, 64, 32), (2, 5, 8, 1)),
]
LARGE = [(2, 1700, 320, 32), (1, 4097, 60, 6), (1, 3001, 7, 1), (1, 9000, 4, 2), (1, 17, 4096, 2)]


@pytest.mark.parametrize("shape", [*SHAPES, *LARGE])
@pytest.mark.parametrize("mean", [0.0, 3000.0])
def test_group_norm(shape: tuple[int, int, int, int], mean: float) -> None:
    dispatches = check(group_norm(*shape), mean)
    assert dispatches == 1 + (shape[1] * shape[2] // shape[3] > SMALL)


def test_one_extreme_value_leaves_the_others_precise() -> None:
    op = group_norm(1, 4000, 20, 2)
    x = image(op)
    x[0, 0, 0] = 300.0
    (y,) = run(normalize_groups(op, GPU), {op.x: x}, [op.y])
    expected = normalized(op, x)
    assert decibels(y.reshape(x.shape)[:, 1:], expected[:, 1:]) >= 100


@given(
    batch=st.integers(1, 3), pixels=st.integers(1, 300), each=st.integers(1, 80), groups=st.integers(1, 33)
)
@settings(max_examples=10, deadline=None)
def test_any_size(batch: int, pixels: int, each: int, groups: int) -> None:
    pixels = max(pixels, 2 if each == 1 else 1)
    check(group_norm(batch, pixels, each * groups, groups))


@pytest.mark.parametrize("shape", [(2, 100, 40, 4), (1, 3001, 60, 6), (1, 50, 9, 3)])
def test_the_activation_follows(shape: tuple[int, int, int, int]) -> None:
    op = replace(group_norm(*shape), activation="SILU")
    x = image(op)
    (y,) = run(normalize_groups(op, GPU), {op.x: x}, [op.y])
    plain = normalized(op, x)
    assert decibels(y, plain / (1 + np.exp(-plain))) >= 110


@pytest.mark.parametrize("shape", [*SHAPES[:3], *SHAPES[-4:], *LARGE])
def test_the_statistics_alone(shape: tuple[int, int, int, int]) -> None:
    op = group_norm(*shape)
    x = image(op)
    dispatches, factors = group_statistics(op, GPU)
    (found,) = run(dispatches, {op.x: x}, [factors])
    pairs = found.astype(np.float64).reshape(op.batch, 2, 1, op.channels)
    assert decibels(x * pairs[:, 0] + pairs[:, 1], normalized(op, x)) >= 100


@pytest.mark.parametrize("shape", [(2, 100, 40, 4), (1, 3001, 60, 6)])
def test_without_scale_and_shift(shape: tuple[int, int, int, int]) -> None:
    op = group_norm(*shape)
    check(replace(op, scale=None, shift=None))
    check(replace(op, shift=None))


def test_slabs_cover_an_image_and_fill_the_gpu() -> None:
    op = group_norm(1, 4096, 320, 32)
    for enough in (1, 64, 500):
        slabs = choose_slabs(op, Gpu(enough_workgroups=enough))
        assert (slabs.slabs - 1) * slabs.pixels < op.pixels <= slabs.slabs * slabs.pixels
        assert slabs.columns * slabs.width == slabs.groups * 10
    assert choose_slabs(op, Gpu(enough_workgroups=1)).slabs < slabs.slabs


@pytest.mark.parametrize("pixels", [10, 5000])
def test_f16_group_norm_changes_types_only(pixels: int) -> None:
    op = group_norm(1, pixels, 40, 4)
    halves = replace(op, x=Value("x", "f16", op.x.count), y=Value("y", "f16", op.y.count))
    for full, half in zip(normalize_groups(op, GPU), normalize_groups(halves, Gpu(half=True)), strict=True):
        assert only_types_differ(full, half)


def layer_norm(rows: int, channels: int) -> LayerNorm:
    return LayerNorm(
        x=value("x", rows * channels),
        y=value("y", rows * channels),
        rows=rows,
        channels=channels,
        epsilon=EPSILON,
        scale=constant("scale", random(channels, seed=1)),
        shift=constant("shift", random(channels, seed=2)),
    )


@pytest.mark.parametrize("mean", [0.0, 3000.0])
@pytest.mark.parametrize(
    ("rows", "channels"), [(77, 768), (33, 320), (9, 1280), (3, 7), (2, 1), (1, 2051), (2, 8196)]
)
def test_layer_norm(rows: int, channels: int, mean: float) -> None:
    op = layer_norm(rows, channels)
    x = random(rows, channels) + np.float32(mean)
    wide = x.astype(np.float64)
    plain = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + EPSILON)
    (y,) = run(normalize_layers(op, GPU), {op.x: x}, [op.y])
    assert decibels(y, plain * random(channels, seed=1) + random(channels, seed=2)) >= 110
    bare = replace(op, scale=None, shift=None)
    (y,) = run(normalize_layers(bare, GPU), {op.x: x}, [op.y])
    assert decibels(y, plain) >= 110 or channels == 1


def test_f16_layer_norm_changes_types_only() -> None:
    op = layer_norm(2, 80)
    halves = replace(op, x=Value("x", "f16", 160), y=Value("y", "f16", 160))
    (full,), (half,) = normalize_layers(op, GPU), normalize_layers(halves, Gpu(half=True))
    assert only_types_differ(full, half)

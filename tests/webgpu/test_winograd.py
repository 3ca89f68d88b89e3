from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.winograd import (
    choose_winograd,
    filter_of_run,
    input_width,
    transform_filter,
    transformed_filter,
    winograd,
    winograd_bytes,
)
from msd.gpu.kernels.winograd_matrices import as_array, winograd_matrices
from msd.gpu.operations import Normalised, Stored
from msd.gpu.value import Value
from tests.webgpu.convolutions import Case, activate, case, snr
from tests.webgpu_device import run

TILES = [2, 4, 6, 8]
LARGE = Gpu(enough_workgroups=264)
LEAST_DB = {2: 120, 4: 110, 6: 100, 8: 88}
"""In f32; eight loses more than the 100 dB that other kernels keep."""


def weights_of(made: Case) -> np.ndarray:
    """Return the OHWI weights that the packed int8 filter has."""
    op = made.op
    assert op.filter.values.load is not None
    packed = op.filter.values.load().view(np.int8).reshape(3, 3, op.channels, -1)
    return packed[..., : op.filter.columns].transpose(3, 0, 1, 2)


def _snr(made: Case, tile: int) -> float:
    outputs, channels = made.op.filter.columns, made.op.channels
    filter_ = transformed_filter(lambda: weights_of(made), outputs, channels, tile, Gpu(), "w")
    (got,) = run(winograd(made.op, filter_, tile, Gpu()), made.inputs, [made.op.y])
    return snr(made.expected, got)


@pytest.mark.parametrize("tile", TILES)
def test_matrices_filter_exactly(tile: int) -> None:
    matrices = winograd_matrices(tile)
    rng = np.random.default_rng(tile)
    d = rng.integers(-9, 10, tile + 2)
    g = rng.integers(-9, 10, 3)
    left = [sum(int(x) * n for x, n in zip(d, row, strict=True)) for row in matrices.input]
    right = [sum(int(x) * n for x, n in zip(g, row, strict=True)) for row in matrices.filter]
    products = [a * b for a, b in zip(left, right, strict=True)]
    got = [sum(n * x for n, x in zip(row, products, strict=True)) for row in matrices.output]
    assert got == [sum(int(d[i + k]) * int(g[k]) for k in range(3)) for i in range(tile)]


@pytest.mark.parametrize("tile", TILES)
def test_matrices_are_exact_in_f32_and_keep_magnitudes(tile: int) -> None:
    matrices = winograd_matrices(tile)
    assert np.square(as_array(matrices.input)).sum(axis=1).max() <= 1
    assert np.abs(as_array(matrices.filter)).sum(axis=1).max() <= 1
    for row in (*matrices.input, *matrices.output):
        assert all(float(np.float32(float(n))) == n for n in row)


CASES = [
    ((1, 8, 8, 20), (1, 1, 1, 1), 1),
    ((2, 7, 13, 8), (0, 2, 1, 0), 1),
    ((1, 3, 5, 32), (1, 1, 1, 1), 2),
    ((3, 1, 2, 4), (2, 1, 1, 2), 1),
]


@pytest.mark.parametrize(
    ("tile", "size", "pad", "upsample"),
    [*((tile, *case) for tile in (2, 4) for case in CASES), (6, *CASES[1]), (6, *CASES[2]), (8, *CASES[1])],
)
def test_convolutions(
    tile: int, size: tuple[int, int, int, int], pad: tuple[int, ...], upsample: int
) -> None:
    made = case(size, 36, (3, 3), pad=pad, upsample=upsample, extras="scale bias")
    assert _snr(made, tile) > LEAST_DB[tile]


@pytest.mark.parametrize("outputs", [36, 7])
def test_epilogue(outputs: int) -> None:
    extras = "scale bias vector slopes residual"
    made = case((2, 6, 5, 12), outputs, (3, 3), pad=(1, 1, 1, 1), activation="SILU", extras=extras)
    assert _snr(made, 4) > 110


@pytest.mark.parametrize(("tile", "stored"), [(2, "int8"), (4, "int8"), (4, "int4"), (4, "f16")])
def test_filters_transformed_on_the_gpu(tile: int, stored: Stored) -> None:
    made = case((1, 6, 9, 12), 20, (3, 3), pad=(1, 1, 1, 1), stored=stored, extras="scale bias")
    dispatches = winograd(made.op, filter_of_run(made.op, tile, Gpu()), tile, Gpu())
    (got,) = run(dispatches, made.inputs, [made.op.y])
    assert snr(made.expected, got) > LEAST_DB[tile]


@pytest.mark.parametrize(
    ("tile", "flops", "memory", "weights"),
    [(2, 2.25, 4, 1.77), (4, 4, 2.25, 4), (6, 5.06, 1.8, 7.12), (8, 5.76, 1.56, 11.12)],
)
def test_costs_are_those_of_the_paper(tile: int, flops: float, memory: float, weights: float) -> None:
    """Table 2 of arXiv 2304.11267, where sides divide by the tile."""
    op = case((1, 24, 24, 4), 4, (3, 3), pad=(1, 1, 1, 1), stored="f32").op
    v, u, m = winograd_bytes(op, tile, Gpu())
    assert v / op.x.bytes == pytest.approx(memory, abs=0.03)
    assert m / op.y.bytes == pytest.approx(memory, abs=0.03)
    assert u / op.filter.values.bytes == pytest.approx(weights, abs=0.02)
    assert 9 * tile**2 / (tile + 2) ** 2 == pytest.approx(flops, abs=0.01)


def test_the_choice() -> None:
    large = case((1, 32, 32, 32), 32, (3, 3), pad=(1, 1, 1, 1)).op
    assert choose_winograd(large, Gpu()) == 4
    assert choose_winograd(replace(large, stride=(2, 2)), Gpu()) is None
    assert choose_winograd(replace(large, dilation=(2, 1)), Gpu()) is None
    assert choose_winograd(case((1, 32, 28, 32), 32, (3, 3), pad=(1, 1, 1, 1)).op, Gpu()) is None
    assert choose_winograd(case((1, 32, 32, 28), 32, (3, 3), pad=(1, 1, 1, 1)).op, Gpu()) is None
    assert choose_winograd(large, Gpu(binding_bytes=1 << 10)) is None
    assert "winograd" not in convolve(large, Gpu())[0].kernel.name


def test_a_large_gpu_transforms_a_small_image_by_more_threads() -> None:
    small = case((1, 96, 96, 32), 4, (3, 3)).op
    large = replace(small, batch=200)
    assert [input_width(op, 4, LARGE) for op in (small, large)] == [2, 4]
    assert [input_width(small, tile, LARGE) for tile in (2, 6, 8)] == [4, 2, 1]
    assert input_width(small, 4, Gpu()) == 4


def test_refusals() -> None:
    op = case((1, 4, 4, 5), 4, (3, 3), pad=(1, 1, 1, 1)).op
    filter_ = transformed_filter(lambda: np.zeros((4, 3, 3, 5)), 4, 5, 4, Gpu(), "w")
    with pytest.raises(ValueError, match="channels in fours"):
        winograd(op, filter_, 4, Gpu())
    op = case((1, 4, 4, 8), 4, (3, 3), pad=(1, 1, 1, 1)).op
    with pytest.raises(ValueError, match="not transformed for tiles of 2"):
        winograd(op, transformed_filter(lambda: np.zeros((4, 3, 3, 8)), 4, 8, 4, Gpu(), "w"), 2, Gpu())
    with pytest.raises(ValueError, match="not 3"):
        winograd_matrices(3)
    with pytest.raises(ValueError, match="are 3x3"):
        transform_filter(np.zeros((4, 1, 1, 8)), 4)


@pytest.mark.parametrize("gpu", [Gpu(), LARGE], ids=["small", "large"])
@pytest.mark.parametrize("activation", ["NONE", "SILU"])
@pytest.mark.parametrize(("batch", "pad", "upsample"), [(1, (1, 1, 1, 1), 1), (2, (0, 1, 1, 0), 2)])
def test_a_norm_is_applied_before_padding(
    activation: str, batch: int, pad: tuple[int, int, int, int], upsample: int, gpu: Gpu
) -> None:
    size, rng = (batch, 7, 5, 12), np.random.default_rng(1)
    made = case(size, 20, (3, 3), pad=pad, upsample=upsample, extras="scale bias")
    raw, pairs = rng.standard_normal(size), rng.uniform(0.5, 2, (2, batch, 12)).astype(np.float32)
    raw = raw.astype(np.float32)
    read = activate(raw * pairs[0][:, None, None] + pairs[1][:, None, None], activation)
    (x,) = made.inputs
    plain = winograd(made.op, filter_of_run(made.op, 4, Gpu()), 4, Gpu())
    (expected,) = run(plain, {x: read.astype(np.float32)}, [made.op.y])
    factors = Value("factors", "f32", pairs.size)
    norm = Normalised(x, factors, activation)  # type: ignore[arg-type]
    dispatches = winograd(made.op, filter_of_run(made.op, 4, gpu), 4, gpu, norm=norm)
    (got,) = run(dispatches, {x: raw, factors: pairs.swapaxes(0, 1)}, [made.op.y])
    assert snr(expected, got) > 100

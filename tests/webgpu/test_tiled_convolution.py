from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.tile import Tile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.operations import Stored
from msd.gpu.value import Value
from tests.webgpu.convolutions import Case, case, snr
from tests.webgpu_device import run

SMALL = Tile(32, 32, 4, 4)


def _snr(made: Case, tile: Tile = SMALL, splits: int = 1) -> float:
    dispatches = tiled_convolution(made.op, Gpu(), tile, splits)
    (got,) = run(dispatches, made.inputs, [made.op.y])
    return snr(made.expected, got)


@pytest.mark.parametrize(
    "tile",
    [
        Tile(128, 128, 8, 8),
        Tile(128, 64, 8, 4),
        Tile(64, 64, 4, 4),
        Tile(64, 64, 8, 8, 32),
        Tile(32, 64, 4, 4),
        Tile(32, 64, 4, 8, 8),
    ],
    ids=str,
)
def test_tiles(tile: Tile) -> None:
    made = case((1, 11, 13, 20), 132, extras="scale bias")
    assert _snr(made, tile) > 100


@pytest.mark.parametrize("stored", ["int8", "int4", "f16", "f32"])
@pytest.mark.parametrize(("channels", "outputs"), [(20, 36), (16, 44), (5, 7), (4, 3)])
def test_storage_and_tails(stored: Stored, channels: int, outputs: int) -> None:
    made = case((2, 3, 7, channels), outputs, stored=stored, extras="scale bias vector slopes residual")
    assert _snr(made) > 100


@pytest.mark.parametrize("channels", [4, 12, 16, 48, 3])
@pytest.mark.parametrize(
    "shape",
    [
        {"kernel": (3, 3), "pad": (1, 1, 1, 1)},
        {"kernel": (3, 3), "stride": (2, 2), "pad": (0, 0, 1, 1)},
        {"kernel": (3, 3), "pad": (1, 1, 1, 1), "upsample": 2},
        {"kernel": (2, 5), "stride": (1, 3), "pad": (0, 2, 3, 1), "dilation": (2, 1)},
        {"kernel": (1, 1), "stride": (2, 1)},
        {"kernel": (1, 1), "upsample": 2},
    ],
    ids=str,
)
def test_kernels(channels: int, shape: dict[str, object]) -> None:
    made = case((2, 7, 9, channels), 20, **shape, extras="bias")
    assert _snr(made) > 100


@pytest.mark.parametrize("splits", [2, 3, 7, 100])
def test_split_sums(splits: int) -> None:
    made = case(
        (1, 5, 6, 24), 28, (3, 3), pad=(1, 1, 1, 1), activation="SILU", extras="scale bias vector residual"
    )
    assert _snr(made, splits=splits) > 100


@pytest.mark.parametrize("gate", ["gate", "tanh_gate"])
@pytest.mark.parametrize("splits", [1, 3])
def test_gates(splits: int, gate: str) -> None:
    made = case((2, 3, 11, 24), 80, extras=f"scale bias residual {gate}")
    assert _snr(made, Tile(32, 64, 4, 8), splits) > 100


@pytest.mark.parametrize("activation", ["RELU", "RELU6", "SILU", "GELU", "TANH_GELU"])
def test_activations(activation: str) -> None:
    made = case((1, 5, 5, 8), 12, activation=activation, extras="scale bias residual")
    assert _snr(made) > 100


def test_a_gate_needs_eight_columns_a_thread() -> None:
    made = case((1, 2, 2, 8), 16, extras="gate")
    with pytest.raises(ValueError, match="threads of eight columns"):
        tiled_convolution(made.op, Gpu(), SMALL)


@pytest.mark.parametrize(("splits", "outputs", "pixels"), [(1, 20, (7, 9)), (3, 20, (7, 9)), (1, 4, (2, 1))])
def test_a_result_among_others(splits: int, outputs: int, pixels: tuple[int, int]) -> None:
    """It lies in its part of each pixel, as a concatenation wants it; the rest is left alone."""
    made = case((2, *pixels, 24), outputs, extras="scale bias")
    rows = made.op.pixels
    y = Value("y", "f32", rows * 40)
    op = replace(made.op, y=y, y_at=8, y_row=40)
    before = np.arange(rows * 40, dtype=np.float32)
    dispatches = convolve(op, Gpu()) if splits == 1 else tiled_convolution(op, Gpu(), SMALL, splits)
    (got,) = run(dispatches, made.inputs | {y: before}, [y])
    found, kept = got.reshape(rows, 40), before.reshape(rows, 40)
    assert snr(made.expected, found[:, 8 : 8 + outputs].reshape(-1)) > 100
    assert (found[:, :8] == kept[:, :8]).all()
    assert (found[:, 8 + outputs :] == kept[:, 8 + outputs :]).all()

"""Short sums of a tile: as precise as long ones in f32, bounded so that f16 cannot overflow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.tile import Tile, shrink
from msd.gpu.kernels.tile_choice import EFFICIENCY, PAIRED_STEPS, SHORT_EFFICIENCY, choose_tile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.widening import MOST_SHORT, is_bounded, shrunk_by, tile_widening
from msd.gpu.kernels.winograd import filter_of_run, transformed_filter, winograd
from msd.gpu.operations import Stored
from tests.webgpu.convolutions import Case, case, snr
from tests.webgpu_device import run

HALF = Gpu(half=True, short_sums=True)

tiles = st.builds(
    Tile,
    rows=st.sampled_from([32, 64]),
    columns=st.sampled_from([32, 64]),
    thread_rows=st.sampled_from([4, 8]),
    thread_columns=st.sampled_from([4, 8]),
    depth=st.sampled_from([16, 32]),
    short=st.sampled_from([8, 16]),
    unroll=st.sampled_from([4, 8, 16]),
    paired=st.booleans(),
)


def _snr(made: Case, tile: Tile, splits: int = 1) -> float:
    (got,) = run(tiled_convolution(made.op, Gpu(), tile, splits), made.inputs, [made.op.y])
    return snr(made.expected, got)


@given(
    tile=tiles,
    size=st.tuples(st.integers(1, 2), st.integers(1, 9), st.integers(1, 11), st.integers(1, 40)),
    outputs=st.integers(1, 70),
    splits=st.integers(1, 3),
    stored=st.sampled_from(["int8", "int4"]),
)
@settings(max_examples=8, deadline=None)
def test_any_tile_and_size(
    tile: Tile, size: tuple[int, int, int, int], outputs: int, splits: int, stored: Stored
) -> None:
    made = case(size, outputs, stored=stored, extras="scale bias residual")
    assert _snr(made, tile, splits) > 100


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize(
    "tile",
    [
        Tile(32, 64, 4, 8, 16, short=16, unroll=16),
        Tile(32, 64, 4, 8, 32, 8),
        Tile(64, 64, 8, 8, 16, short=16, unroll=16, paired=True),
    ],
)
def test_gates_and_taps(tile: Tile, splits: int) -> None:
    assert _snr(case((1, 5, 9, 24), 48, extras="scale bias gate"), tile, splits) > 100
    taps = case((1, 7, 5, 12), 20, (3, 3), stride=(2, 1), pad=(1, 1, 1, 1), extras="scale vector")
    assert _snr(taps, tile, splits) > 100


@pytest.mark.parametrize("stored", ["int8", "int4"])
@pytest.mark.parametrize(("short", "paired"), [(0, False), (8, False), (32, False), (16, True)])
def test_winograd(stored: Stored, short: int, paired: bool) -> None:
    made = case((1, 9, 6, 12), 20, (3, 3), pad=(1, 1, 1, 1), stored=stored, extras="scale bias")
    size = Tile(32, 32, 4, 4, 32, short, paired=paired)
    dispatches = winograd(made.op, filter_of_run(made.op, 4, Gpu()), 4, Gpu(), size=size)
    (got,) = run(dispatches, made.inputs, [made.op.y])
    assert snr(made.expected, got) > 110


@pytest.mark.parametrize(("stored", "bits"), [("int8", 8), ("int4", 4)])
@pytest.mark.parametrize("short", [8, 16, 32])
def test_sums_stay_below_the_largest_input(stored: Stored, bits: int, short: int) -> None:
    largest = 2 ** (bits - 1)
    assert short * largest * shrink(bits, Tile(64, 64, 8, 8, 32, short)) <= 1
    assert MOST_SHORT * largest * shrunk_by(stored) <= 1


def test_floats_have_no_bound() -> None:
    floats = case((1, 4, 4, 8), 8, stored="f32").op.filter
    assert not is_bounded(floats)
    with pytest.raises(ValueError, match="f32 have no bound for short sums"):
        tile_widening(floats, Tile(32, 32, 4, 4, 16, 16))
    zeros = np.zeros((8, 3, 3, 8), np.int8)
    assert not is_bounded(transformed_filter(lambda: zeros, 8, 8, 4, HALF, "w"))
    assert is_bounded(transformed_filter(lambda: zeros, 8, 8, 4, HALF, "w", "int8"))


def test_the_choice() -> None:
    assert choose_tile(4096, 640, 640, HALF, bounded=True).tile in SHORT_EFFICIENCY
    assert choose_tile(4096, 640, 640, HALF).tile in EFFICIENCY
    assert choose_tile(4096, 640, 640, replace(HALF, short_sums=False), bounded=True).tile in EFFICIENCY
    assert choose_tile(4096, 640, 640, Gpu(short_sums=True), bounded=True).tile in EFFICIENCY


@pytest.mark.parametrize(
    ("sizes", "taps", "chosen"),
    [
        ((9216, 320, 1280), False, ((128, 64), 1)),
        ((2304, 640, 2560), False, ((128, 64), 4)),
        ((576, 1280, 11520), True, ((64, 128), 16)),
        ((40, 320, 320), False, ((32, 32), 1)),
    ],
    ids=str,
)
def test_pairs_where_shaders_may_read_two_f16_as_a_word(
    sizes: tuple[int, int, int], taps: bool, chosen: tuple[tuple[int, int], int]
) -> None:
    """On a GPU of 132 processors; rows that are read by a filter's taps are few."""
    gpu = replace(HALF, bitcasts=True, enough_workgroups=264)
    choice = choose_tile(*sizes, gpu, bounded=True, taps=taps)
    assert isinstance(choice.tile, Tile)
    assert choice.tile in PAIRED_STEPS
    assert ((choice.tile.rows, choice.tile.columns), choice.splits) == chosen
    assert choose_tile(*sizes, gpu).tile in EFFICIENCY


@pytest.mark.parametrize(("memory", "paired"), [(16384, True), (8192, True), (4096, False)])
def test_pairs_keep_limits_and_gates(memory: int, paired: bool) -> None:
    gpu = replace(HALF, bitcasts=True, workgroup_bytes=memory, invocations=128)
    tile = choose_tile(9216, 2560, 320, gpu, gate=True, bounded=True).tile
    assert isinstance(tile, Tile)
    assert (tile.short, tile.paired) == (16, paired)
    assert tile.bytes <= memory
    assert tile.threads <= 128
    assert tile.thread_columns == 8

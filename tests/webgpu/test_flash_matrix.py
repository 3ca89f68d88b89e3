"""FlashAttention by matrix units equals NumPy's; SwiftShader computes the matrices number by number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.kernels.attention import attend, choose_flash
from msd.gpu.kernels.flash_matrix import choose_matrix_tile, flash_by_matrices
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.operations import Attention
from msd.gpu.value import Value
from msd.graph.ir.weights import Array
from tests.webgpu.arrays import decibels
from tests.webgpu.emulated_matrices import emulated
from tests.webgpu.test_attention import Sizes, expected, inputs, operation, taken
from tests.webgpu_device import constant, run

UNIT, SMALL = MatrixUnit(16, 16, 16, 32), MatrixUnit(8, 4, 8, 8)
H100 = Gpu(
    half=True, subgroups=True, invocations=1024, workgroup_bytes=49152, enough_workgroups=264, matrix=UNIT
)
SD = [(5, 9216, 64), (5, 4096, 64), (10, 1024, 64), (20, 256, 64), (20, 96, 64)]
SD += [(8, 6144, 40), (8, 4096, 40), (8, 1024, 80), (8, 256, 160), (8, 64, 160)]
"""Heads, queries and the size of a head in Stable Diffusion's U-Nets."""


def check(
    op: Attention, tile: FlashMatrixTile, arrays: dict[Value, Array], mask: Array | None = None
) -> None:
    first, *added = flash_by_matrices(op, tile, Gpu())
    (y,) = run([emulated(first, tile.unit), *added], arrays, [op.y.value])
    found = taken(op.y, op, op.queries, op.value_size, y)
    assert decibels(found, expected(op, arrays, mask)) >= 110


@pytest.mark.parametrize(
    ("tile", "sizes"),
    [
        (FlashMatrixTile(16, 16, 8, SMALL, stored="f32"), Sizes(1, 2, 37, 41, 16, 16)),
        (FlashMatrixTile(16, 16, 8, SMALL, across=2, stored="f32"), Sizes(2, 1, 5, 77, 13, 7)),
        (FlashMatrixTile(32, 32, 16, UNIT, stored="f32", buffers=1), Sizes(1, 1, 33, 3, 20, 40)),
        (FlashMatrixTile(16, 16, 8, SMALL, across=2, stored="f32", pieces=2), Sizes(2, 3, 21, 77, 13, 7)),
        (FlashMatrixTile(16, 32, 8, SMALL, stored="f32", pieces=3), Sizes(2, 2, 5, 81, 16, 20)),
    ],
    ids=str,
)
def test_tiles(tile: FlashMatrixTile, sizes: Sizes) -> None:
    """Tails of queries and of keys, heads that fill no matrix, rows of no whole vectors."""
    op = operation(sizes)
    check(op, tile, inputs(op))


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_scores_that_grow_and_a_mask(pieces: int) -> None:
    """What was summed shrinks in several steps, by more than f16 holds; a causal mask hides later keys, and
    of some queries whole pieces."""
    tile = FlashMatrixTile(16, 16, 8, SMALL, across=2, stored="f32", pieces=pieces)
    op = operation(Sizes(1, 2, 77, 77, 16, 16))
    arrays = {value: np.abs(array) for value, array in inputs(op).items()}
    keys = arrays[op.k.value].reshape(77, -1) * np.linspace(0.1, 20, 77)[:, None]
    arrays[op.k.value] = keys.reshape(-1).astype(np.float32)
    mask = np.where(np.tri(77, dtype=bool), 0, -np.inf).astype(np.float32)
    check(replace(op, mask=constant("mask", mask)), tile, arrays, mask)


@pytest.mark.parametrize(("heads", "queries", "size"), SD)
@pytest.mark.parametrize("unit", [UNIT, MatrixUnit(8, 8, 8, 32), MatrixUnit(8, 16, 16, 16)], ids=str)
@pytest.mark.parametrize(("memory", "invocations"), [(49152, 1024), (32768, 256), (16384, 256)])
def test_limits_are_kept(
    heads: int, queries: int, size: int, unit: MatrixUnit, memory: int, invocations: int
) -> None:
    gpu = replace(H100, matrix=unit, workgroup_bytes=memory, invocations=invocations)
    op = operation(Sizes(1, heads, queries, queries, size, size), "f16")
    tile = choose_matrix_tile(op, gpu)
    if tile is None:
        assert memory < 49152
        return
    assert tile.whole
    assert tile.bytes(size, size) <= memory
    assert tile.threads <= invocations
    dispatch, *added = attend(op, gpu)
    assert dispatch.kernel.wgsl.startswith("enable subgroups;")
    assert len(added) == (tile.pieces > 1)
    assert choose_flash(op, gpu)


def test_tiles_leave_processors_alike_work() -> None:
    """132 processors have room for two workgroups of 128 or 160 queries each: 260 leave hardly any without
    work, and 720, each with half of the keys, are three rounds; few keys are worth no second dispatch."""

    def chosen(heads: int, count: int) -> tuple[int, int]:
        tile = choose_matrix_tile(operation(Sizes(1, heads, count, count, 64, 64), "f16"), H100)
        assert tile is not None
        return tile.queries, tile.pieces

    assert [chosen(10, 4096), chosen(5, 4096), chosen(5, 9216)] == [(160, 1), (160, 2), (128, 2)]
    assert [chosen(10, 2304), chosen(10, 1024), chosen(20, 256)] == [(128, 1), (96, 1), (64, 1)]


def test_scores_lie_key_by_key_where_a_thread_has_a_row() -> None:
    """Threads side by side, of rows side by side, then read numbers side by side."""
    alone, shared = FlashMatrixTile(64, 16, 32, UNIT), FlashMatrixTile(64, 16, 16, UNIT)
    assert [(each.threads_each, each.by_keys, each.scores) for each in (alone, shared)] == [
        (1, True, 16 * (64 + 4)),
        (2, False, 64 * (16 + 4)),
    ]


def test_pieces_are_bounded_in_memory() -> None:
    op = operation(Sizes(1, 40, 16384, 16384, 64, 64), "f16")
    tile = choose_matrix_tile(op, replace(H100, enough_workgroups=1 << 20))
    assert tile is not None
    assert tile.pieces == 1


def test_pieces_are_bounded_in_workgroups() -> None:
    """Batch and pieces share a dimension of the dispatch."""
    op = operation(Sizes(20, 1, 1, 100_000, 8, 8), "f16")
    pieces = []
    for workgroups in (65535, 79, 39):
        tile = choose_matrix_tile(op, replace(H100, workgroups=workgroups))
        assert tile is not None
        pieces.append(tile.pieces)
    assert pieces == [8, 3, 1]


def test_what_matrices_do_not_fit_is_left_to_threads() -> None:
    op = operation(Sizes(1, 2, 64, 64, 64, 64), "f16")
    assert choose_matrix_tile(op, replace(H100, matrix=None)) is None
    assert choose_matrix_tile(replace(op, scale=-1.0), H100) is None
    assert choose_matrix_tile(operation(Sizes(1, 2, 64, 64, 64, 64)), H100) is None

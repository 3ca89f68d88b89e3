"""Attention in all three ways equals NumPy's, for every layout of heads, tile and tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.errors import DelegateFailed
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.attention import attend, attend_partially, attend_plainly, choose_flash
from msd.gpu.kernels.flash import flash
from msd.gpu.kernels.flash_choice import choose_across, choose_tile
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.operations import Attention, Heads
from msd.gpu.value import Dispatch, Value
from msd.graph.ir.weights import Array
from tests.webgpu.arrays import GPU, decibels, only_types_differ, random
from tests.webgpu_device import constant, run

Attend = Callable[[Attention, Gpu, str], list[Dispatch]]
WAYS: list[Attend] = [attend, attend_partially, attend_plainly]


@dataclass(frozen=True)
class Sizes:
    """Numbers of batches, heads, queries and keys, and the sizes of their vectors and of the values'."""

    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    value_size: int


def rows_of_heads(name: str, element: str, batch: int, heads: int, rows: int, size: int) -> Heads:
    """Return where batch x rows x heads x size lies: what a projection writes, without a transpose."""
    whole = Value(name, element, batch * rows * heads * size)  # type: ignore[arg-type]
    return Heads(value=whole, offset=0, batch=rows * heads * size, head=size, row=heads * size)


def operation(sizes: Sizes, element: str = "f32") -> Attention:
    b, h = sizes.batch, sizes.heads
    return Attention(
        q=rows_of_heads("q", element, b, h, sizes.queries, sizes.size),
        k=rows_of_heads("k", element, b, h, sizes.keys, sizes.size),
        v=rows_of_heads("v", element, b, h, sizes.keys, sizes.value_size),
        y=rows_of_heads("y", element, b, h, sizes.queries, sizes.value_size),
        batch=b,
        heads=h,
        queries=sizes.queries,
        keys=sizes.keys,
        size=sizes.size,
        value_size=sizes.value_size,
        scale=0.9 * sizes.size**-0.5,
    )


def taken(heads: Heads, op: Attention, rows: int, size: int, array: Array) -> Array:
    """Return batch x heads x rows x size of a flat array, in f64."""
    b, h, r, c = np.ogrid[: op.batch, : op.heads, :rows, :size]
    return array[heads.offset + b * heads.batch + h * heads.head + r * heads.row + c].astype(np.float64)


def expected(op: Attention, arrays: dict[Value, Array], mask: Array | None = None) -> Array:
    """Return softmax(scale * q k^T + mask) v as batch x heads x queries x value_size."""
    q = taken(op.q, op, op.queries, op.size, arrays[op.q.value])
    k = taken(op.k, op, op.keys, op.size, arrays[op.k.value])
    v = taken(op.v, op, op.keys, op.value_size, arrays[op.v.value])
    scores = op.scale * q @ np.swapaxes(k, 2, 3)
    if mask is not None:
        scores = scores + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def inputs(op: Attention) -> dict[Value, Array]:
    """Return an array for each of the values that q, k and v lie in."""
    values = dict.fromkeys([op.q.value, op.k.value, op.v.value])
    return {value: random(value.count, seed=i) for i, value in enumerate(values)}


def check(op: Attention, dispatches: list[Dispatch], mask: Array | None = None) -> None:
    arrays = inputs(op)
    (y,) = run(dispatches, arrays, [op.y.value])
    found = taken(op.y, op, op.queries, op.value_size, y)
    assert decibels(found, expected(op, arrays, mask)) >= 110


# SD's heads of 40, 64, 80 and 160 and others; 77 keys and 1; one query; tails of tiles; sizes of no vectors.
SHAPES = [
    *(Sizes(1, 2, 70, 77, 64, 64), Sizes(2, 3, 33, 65, 40, 40), Sizes(1, 1, 130, 20, 80, 80)),
    *(Sizes(1, 1, 5, 50, 160, 160), Sizes(3, 1, 1, 1, 16, 16), Sizes(1, 2, 1, 77, 128, 128)),
    *(Sizes(1, 2, 9, 50, 7, 5), Sizes(2, 1, 17, 9, 32, 20), Sizes(1, 1, 12, 16, 12, 13)),
]


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_ways(way: Attend, sizes: Sizes) -> None:
    op = operation(sizes)
    check(op, way(op, GPU, ""))


@pytest.mark.parametrize("way", WAYS)
def test_a_causal_mask(way: Attend) -> None:
    op = operation(Sizes(1, 2, 77, 77, 16, 16))
    mask = np.where(np.tri(77, dtype=bool), 0, -np.inf).astype(np.float32)
    check(
        replace(op, mask=constant("mask", mask)), way(replace(op, mask=constant("mask", mask)), GPU, ""), mask
    )


@pytest.mark.parametrize("size", [8, 5])
def test_queries_keys_and_values_in_one_value(size: int) -> None:
    """A projection to all three at once: rows of 3 x heads x size."""
    batch, heads, rows = 2, 3, 19
    whole = Value("qkv", "f32", batch * rows * 3 * heads * size)
    op = operation(Sizes(batch, heads, rows, rows, size, size))
    pitch = 3 * heads * size
    q, k, v = (
        Heads(value=whole, offset=i * heads * size, batch=rows * pitch, head=size, row=pitch)
        for i in range(3)
    )
    op = replace(op, q=q, k=k, v=v)
    check(op, attend(op, GPU))


@pytest.mark.parametrize("size", [32, 13])
@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(("across", "down", "rows"), [(4, 8, 4), (5, 3, 8), (16, 4, 2), (4, 1, 1)])
def test_tiles(size: int, across: int, down: int, rows: int, ahead: bool) -> None:
    """The queries' and the keys' last tiles are not full; 37 keys are several tiles, or fewer than one."""
    op = operation(Sizes(1, 2, 37, 41, size, size))
    check(op, flash(op, FlashTile(across, down, rows, "f32", ahead), GPU))


@pytest.mark.parametrize("size", [32, 20, 13])
def test_short_sums(size: int) -> None:
    """In f32 they are as precise as long ones; what f16 loses is measured where a GPU has it."""
    op = operation(Sizes(1, 2, 37, 41, size, size))
    check(op, flash(op, FlashTile(5, 3, 2, "f32", short_sums=True), GPU))


@pytest.mark.parametrize("sizes", [Sizes(2, 3, 21, 77, 13, 7), Sizes(1, 2, 37, 41, 16, 20)], ids=str)
@pytest.mark.parametrize(("pieces", "short"), [(2, False), (3, True)])
def test_pieces_of_the_keys(sizes: Sizes, pieces: int, short: bool) -> None:
    """The last piece is short; heads that fill no vector; rows of several batches and heads."""
    op = operation(sizes)
    tile = FlashTile(4, 3, 4, "f32", short_sums=short, pieces=pieces)
    dispatches = flash(op, tile, GPU)
    assert len(dispatches) == 2
    check(op, dispatches)


def test_pieces_whose_keys_a_mask_hides() -> None:
    """Of the first queries, all keys of a later piece."""
    op = operation(Sizes(1, 2, 77, 77, 16, 16))
    mask = np.where(np.tri(77, dtype=bool), 0, -np.inf).astype(np.float32)
    op = replace(op, mask=constant("mask", mask))
    check(op, flash(op, FlashTile(4, 4, 2, "f32", pieces=3), GPU), mask)


@given(
    queries=st.integers(1, 90),
    keys=st.integers(1, 90),
    size=st.integers(1, 40),
    value_size=st.integers(1, 40),
)
@settings(max_examples=5, deadline=None)
def test_any_size(queries: int, keys: int, size: int, value_size: int) -> None:
    op = operation(Sizes(1, 2, queries, keys, size, value_size))
    check(op, attend(op, GPU))


def test_scores_far_apart() -> None:
    op = replace(operation(Sizes(1, 1, 20, 70, 16, 16)), scale=40.0)
    check(op, attend(op, GPU))


@pytest.mark.parametrize("way", [attend_partially, attend_plainly])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("binding_bytes", [20 * 30 * 4 * 2, 7 * 30 * 4])
def test_scores_larger_than_a_binding_are_computed_in_parts(
    way: Attend, heads: int, binding_bytes: int
) -> None:
    op = operation(Sizes(2, heads, 20, 30, 8, 8))
    gpu = Gpu(binding_bytes=binding_bytes)
    dispatches = way(op, gpu, "")
    scores = [value for dispatch in dispatches for value in dispatch.writes if "scores" in value.name]
    assert scores
    assert max(value.count * 4 for value in scores) <= binding_bytes
    check(op, dispatches)


@pytest.mark.parametrize("size", [1, 16, 40, 64, 77, 80, 128, 160, 256])
@pytest.mark.parametrize(
    "gpu", [Gpu(), Gpu(half=True), Gpu(half=True, workgroup_bytes=49152, invocations=1024)]
)
@pytest.mark.parametrize("queries", [1, 64, 4096])
def test_the_tile_chosen_fits(size: int, gpu: Gpu, queries: int) -> None:
    op = operation(Sizes(1, 5, queries, 77, size, size))
    tile = choose_tile(op, gpu)
    if size > 160 and not gpu.half:
        assert tile is None
        return
    assert tile is not None
    assert tile.bytes(size, size) <= gpu.workgroup_bytes
    assert tile.invocations <= min(gpu.invocations, 320)


@pytest.mark.parametrize(
    ("heads", "queries", "keys", "size", "chosen"),
    [
        (5, 9216, 9216, 64, (8, 16, 4, 4)),
        (20, 1024, 1024, 64, (8, 16, 4, 2)),
        (5, 9216, 77, 64, (8, 16, 2, 1)),
        (8, 256, 256, 160, (20, 16, 2, 2)),
    ],
)
def test_tiles_leave_many_processors_alike_work(
    heads: int, queries: int, keys: int, size: int, chosen: tuple[int, int, int, int]
) -> None:
    """What was the fastest on an H200: across, down, rows and pieces; a phone's processors are few."""
    op = operation(Sizes(1, heads, queries, keys, size, size), "f16")
    gpu = Gpu(half=True, short_sums=True, workgroup_bytes=49152, invocations=1024)
    tile, phones = (choose_tile(op, replace(gpu, enough_workgroups=n)) for n in (264, 16))
    assert tile is not None
    assert phones is not None
    assert (tile.across, tile.down, tile.rows, tile.pieces) == chosen
    assert phones.pieces == 1


def test_few_queries_get_small_tiles() -> None:
    gpu = Gpu(half=True, workgroup_bytes=49152)
    many, few = (operation(Sizes(1, 5, queries, 77, 64, 64)) for queries in (4096, 64))
    large, small = choose_tile(many, gpu), choose_tile(few, gpu)
    assert large is not None
    assert small is not None
    assert large.queries > small.queries >= 16


def test_no_invocation_idles_where_a_number_divides() -> None:
    assert [choose_across(size) for size in (16, 40, 64, 80, 128, 160)] == [4, 10, 16, 20, 16, 20]


def test_flash_is_for_heads_that_fit() -> None:
    assert choose_flash(operation(Sizes(1, 5, 4096, 4096, 64, 64)), GPU)
    assert choose_flash(operation(Sizes(1, 8, 256, 256, 160, 160)), GPU)
    assert not choose_flash(operation(Sizes(1, 1, 4096, 4096, 512, 512)), GPU)
    assert not choose_flash(operation(Sizes(1, 1, 64, 64, 64, 64)), Gpu(workgroup_bytes=1024))


def test_heads_that_no_tile_fits_are_refused() -> None:
    with pytest.raises(DelegateFailed, match="heads of 512 and 512 fits this GPU's 16384 bytes"):
        attend(operation(Sizes(1, 1, 64, 64, 512, 512)), GPU)


@pytest.mark.parametrize("size", [64, 7])
def test_f16_changes_types_only(size: int) -> None:
    sizes = Sizes(1, 1, 20, 20, size, size)
    [half] = flash(operation(sizes, "f16"), FlashTile(4, 4, 4, "f16"), Gpu(half=True))
    [full] = flash(operation(sizes), FlashTile(4, 4, 4, "f32"), GPU)
    assert only_types_differ(full, half)

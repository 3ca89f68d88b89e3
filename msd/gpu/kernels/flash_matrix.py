"""FlashAttention by matrix units (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash import row_width
from msd.gpu.kernels.flash_matrix_shader import flash_matrix_wgsl
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.kernels.flash_shader import LOG2_E
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch

SHAPES = {
    (128, 32, 32, 2, 2): (1.07, 0.86, 0.78, 0.77),
    (128, 32, 32, 1, 2): (1.03, 0.83, 0.78, 0.78),
    (192, 16, 32, 1, 2): (0.90, 0.82, 0.82, 0.82),
    (256, 16, 32, 1, 2): (0.74, 0.65, 0.65, 0.65),
    (64, 64, 32, 2, 1): (1.42, 1.29, 1.06, 0.99),
    (64, 32, 16, 1, 1): (1.86, 1.00, 1.09, 0.78),
    (32, 32, 16, 1, 1): (1.97, 2.20, 2.20, 1.45),
    (32, 16, 16, 1, 1): (3.0, 3.0, 3.0, 3.0),
    (32, 16, 8, 1, 1): (3.0, 3.0, 3.0, 3.0),
}
"""Queries, keys, a subgroup's rows, subgroups across, buffers, and what a query with a key costs a processor
that has one, two, up to four, and more workgroups: ns on an H100 with a slow clock, heads of 64
(docs/results/flash-matrix-tiles-h100.json). The last two, for GPUs with little workgroup memory, are guesses.
"""
PADDED = 1.25
"""How many times more columns than values subgroups side by side may have, with those that fill matrices."""
MOST_SUMS = 96
"""The most sums of the result that a thread holds beside its queries and scores."""


def choose_matrix_tile(op: Attention, gpu: Gpu) -> FlashMatrixTile | None:
    """Return the tile that fits the GPU and leaves its processors the least work, None without matrix units.

    Also None where an operand is no f16, or the scale, which a row's largest score is multiplied by, is not
    positive.
    """
    halves = {heads.value.element for heads in (op.q, op.k, op.v)} == {"f16"}
    if gpu.matrix is None or not halves or op.scale <= 0:
        return None
    tiles = {FlashMatrixTile(*shape[:3], gpu.matrix, *shape[3:]): costs for shape, costs in SHAPES.items()}
    estimates = {tile: _cost(tile, costs, op, gpu) for tile, costs in tiles.items() if _fits(tile, op, gpu)}
    return min(estimates, key=lambda tile: estimates[tile], default=None)


def _cost(tile: FlashMatrixTile, costs: Sequence[float], op: Attention, gpu: Gpu) -> float:
    """Return what the processor with the most workgroups computes."""
    groups = op.batch * op.heads * -(-op.queries // tile.queries)
    rounds = -(-groups // max(1, gpu.enough_workgroups // 2))
    return rounds * tile.queries * costs[bisect_left((1, 2, 4), rounds)]


def _fits(tile: FlashMatrixTile, op: Attention, gpu: Gpu) -> bool:
    padded = tile.columns(op.value_size) * tile.across > PADDED * op.value_size
    return (
        tile.whole
        and tile.threads <= gpu.invocations
        and tile.bytes(op.size, op.value_size) <= gpu.workgroup_bytes
        and not (padded and tile.across > 1)
        and tile.rows * op.value_size <= MOST_SUMS * tile.unit.subgroup * tile.across
    )


def flash_by_matrices(op: Attention, tile: FlashMatrixTile, gpu: Gpu, step: str = "") -> Dispatch:
    """Return the one dispatch that computes `op` by `tile`."""
    width = row_width(op)
    elements = (op.q.value.element, op.y.value.element)
    mask = {} if op.mask is None else {"mask": (op.mask, 1)}
    params: dict[str, int | float] = {
        "queries": op.queries,
        "keys": op.keys,
        "scale": float(op.scale * LOG2_E),
    }
    for name, heads in (("q", op.q), ("k", op.k), ("v", op.v), ("y", op.y)):
        for part in ("offset", "batch", "head", "row"):
            params[f"{name}_{part}"] = getattr(heads, part) // width
    reads = {"q": (op.q.value, width), "k": (op.k.value, width), "v": (op.v.value, width)}
    return shader_dispatch(
        f"flash attention {op.size}, {tile}",
        flash_matrix_wgsl(tile, op.size, op.value_size, width, elements, op.mask is not None),
        reads | mask,
        {"y": (op.y.value, width)},
        params,
        (-(-op.queries // tile.queries), op.heads, op.batch),
        op.flops,
        step,
    )

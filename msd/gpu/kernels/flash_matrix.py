"""FlashAttention by matrix units (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691)."""

from __future__ import annotations

from dataclasses import replace

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash_copy import row_width
from msd.gpu.kernels.flash_matrix_shader import flash_matrix_wgsl
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.kernels.flash_pieces import PIECES, adding_ns, divides, in_pieces, piece_keys
from msd.gpu.kernels.tile_choice import busy_rounds
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch

SHAPES = {
    (160, 16, 32, 1, 1): (0.385, 0.84, 247, 2),
    (128, 16, 32, 1, 1): (0.36, 0.96, 300, 2),
    (128, 32, 32, 2, 2): (2.0, 0.03, 208, 8),
    (96, 32, 32, 1, 2): (0.337, 1.0, 182, 1),
    (64, 64, 32, 2, 1): (0.331, 1.0, 160, 1),
    (32, 32, 16, 1, 1): (0.824, 1.0, 183, 2),
    (32, 16, 16, 1, 1): (1.42, 0.76, 215, 5),
    (32, 16, 8, 1, 1): (2.0, 0.8, 220, 5),
}
"""Queries, keys, a subgroup's rows, subgroups across, buffers; what a query with a key costs a processor, ns,
with as many workgroups as there is room for; `busy_rounds`' share; how many keys a workgroup's start and end
are worth; and `busy_rounds`' room, of which heads above ROOMY leave half.

Fitted to 2312 times on an H200 with heads of 64, 40, 80 and 160 (docs/results/flash-matrix-tiles-h200.json
has those of one run), with a median deviation of 4 %; the last, for other matrix units, is a guess.
"""
ROOMY = 64
"""The most sums of the result that a thread holds where registers leave a processor the room of SHAPES."""
SOFTMAX = 0.8
"""The part of the time that heads of any size take; the rest is in proportion to their matrices' columns."""
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
    fitting = [(tile, costs) for tile, costs in tiles.items() if _fits(tile, op, gpu)]
    divided = [(replace(tile, pieces=pieces), costs) for tile, costs in fitting for pieces in PIECES]
    estimates = {tile: _cost(tile, *costs, op, gpu) for tile, costs in divided if divides(op, tile, gpu)}
    return min(estimates, key=lambda tile: estimates[tile], default=None)


def _cost(
    tile: FlashMatrixTile, ns: float, alone: float, start: float, room: int, op: Attention, gpu: Gpu
) -> float:
    """Return the ns of the processor with the most workgroups, and of adding pieces."""
    groups = op.batch * op.heads * -(-op.queries // tile.queries) * tile.pieces
    size = SOFTMAX + (1 - SOFTMAX) * tile.depth(op.size) / 64
    each = tile.queries * (piece_keys(op, tile) + start) * ns * size
    if _sums(tile, op) > ROOMY:
        room = max(1, room // 2)
    return busy_rounds(groups, gpu, alone, room) * each + adding_ns(op, tile.pieces)


def _fits(tile: FlashMatrixTile, op: Attention, gpu: Gpu) -> bool:
    padded = tile.columns(op.value_size) * tile.across > PADDED * op.value_size
    return (
        tile.whole
        and tile.threads <= gpu.invocations
        and tile.bytes(op.size, op.value_size) <= gpu.workgroup_bytes
        and not (padded and tile.across > 1)
        and _sums(tile, op) <= MOST_SUMS
    )


def _sums(tile: FlashMatrixTile, op: Attention) -> float:
    """Return the sums of the result that a thread holds."""
    return tile.rows * op.value_size / (tile.unit.subgroup * tile.across)


def flash_by_matrices(op: Attention, tile: FlashMatrixTile, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the dispatch that computes `op` by `tile`, and where it has pieces, the one that adds them."""
    elements = (op.q.value.element, op.y.value.element)
    wgsl = flash_matrix_wgsl(tile, op.size, op.value_size, row_width(op), elements, op.mask is not None)
    return in_pieces(op, tile, gpu, str(tile), wgsl, step)

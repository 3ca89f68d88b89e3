"""FlashAttention (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691): scores never leave the workgroup."""

from __future__ import annotations

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash_copy import row_width
from msd.gpu.kernels.flash_pieces import in_pieces
from msd.gpu.kernels.flash_shader import flash_wgsl
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch


def flash(op: Attention, tile: FlashTile, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the dispatch that computes `op` by `tile`, and where it has pieces, the one that adds them."""
    elements = (op.q.value.element, op.y.value.element)
    wgsl = flash_wgsl(tile, op.size, op.value_size, row_width(op), elements, op.mask is not None)
    name = f"{tile.queries} x {tile.keys}" + f" in {tile.pieces}" * (tile.pieces > 1)
    return in_pieces(op, tile, gpu, name, wgsl, step)

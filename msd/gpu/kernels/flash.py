"""FlashAttention (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691): scores never leave the workgroup."""

from __future__ import annotations

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash_copy import row_width
from msd.gpu.kernels.flash_pieces import add_pieces, kept_pieces, piece_keys
from msd.gpu.kernels.flash_shader import LOG2_E, flash_wgsl
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch


def flash(op: Attention, tile: FlashTile, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the dispatch that computes `op` by `tile`, and where it has pieces, the one that adds them."""
    width = row_width(op)
    reads = {name: (heads.value, width) for name, heads in (("q", op.q), ("k", op.k), ("v", op.v))}
    # Queries, keys and values may lie in one value, which a dispatch can bind only once.
    names = {name: next(n for n, bound in reads.items() if bound == reads[name]) for name in reads}
    names |= {"element": op.q.value.element, "y_element": op.y.value.element}
    params: dict[str, int | float] = {
        "queries": op.queries,
        "keys": op.keys,
        "scale": float(op.scale * LOG2_E),
    }
    params |= {
        f"{name}_{part}": getattr(heads, part) // width
        for name, heads in (("q", op.q), ("k", op.k), ("v", op.v), ("y", op.y))
        for part in ("offset", "batch", "head", "row")
    }
    if tile.pieces > 1:
        params |= {"piece_keys": piece_keys(op, tile), "batches": op.batch, "heads": op.heads}
    parts = kept_pieces(op, tile.pieces)
    first = shader_dispatch(
        f"flash attention {op.size}, {tile.queries} x {tile.keys}" + f" in {tile.pieces}" * (tile.pieces > 1),
        flash_wgsl(tile, op.size, op.value_size, width, names, op.mask is not None),
        reads | ({} if op.mask is None else {"mask": (op.mask, 1)}),
        {"y": (op.y.value, width)} if tile.pieces == 1 else parts,
        params,
        (-(-op.queries // tile.queries), op.heads, op.batch * tile.pieces),
        op.flops,
        step,
    )
    return [first] if tile.pieces == 1 else [first, add_pieces(op, parts, tile.pieces, gpu, step)]

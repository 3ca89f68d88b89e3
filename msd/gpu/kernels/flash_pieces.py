"""FlashAttention whose keys several workgroups share (Dao and others, "Flash-Decoding", 2023).

Each leaves sums of values that its keys' shares weigh, the reference that the shares are relative to, and the
shares' sum. A second dispatch brings them to one reference and divides.
"""

from __future__ import annotations

from msd.gpu.gpu import BYTES, Gpu
from msd.gpu.kernels.flash_copy import row_width
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.kernels.flash_shader import LOG2_E, LOWEST, STORES
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch, Value
from msd.gpu.wgsl import fill, groups_for

PIECES = (1, 2, 3, 4, 6, 8)
ADDING, ADDED = 11000.0, 3800.0
"""The ns of a dispatch that adds pieces, and the bytes of pieces for one ns more, on an H200."""
MOST_KEPT = 64 << 20
"""The most bytes of pieces."""

_ADD = """
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let number = (group.x + group.y * groups.x) * 64u + thread;
  let row = number / ${vectors}u;
  let vector = number % ${vectors}u;
  if (row >= p.rows) { return; }
  var most = $lowest;
  for (var piece = 0u; piece < ${pieces}u; piece++) {
    most = max(most, statistics[piece * p.rows + row].x);
  }
  var sum = 0.0;
  var total = vec4<f32>(0.0);
  for (var piece = 0u; piece < ${pieces}u; piece++) {
    let found = statistics[piece * p.rows + row];
    let weight = exp2(found.x - most);
    sum += weight * found.y;
    total += weight * parts[(piece * p.rows + row) * ${vectors}u + vector];
  }
  let head = row / p.queries;
  let to_head = p.y_offset + head / p.heads * p.y_batch + head % p.heads * p.y_head;
  let to_row = to_head + row % p.queries * p.y_row;
  store(to_row, vector, total / sum);
}
"""


def piece_keys(op: Attention, tile: FlashMatrixTile | FlashTile) -> int:
    """Return the keys of each piece but the last, a whole number of steps."""
    steps = -(-op.keys // tile.keys)
    return -(-steps // tile.pieces) * tile.keys


def divides(op: Attention, tile: FlashMatrixTile | FlashTile, gpu: Gpu) -> bool:
    """Return whether each piece has keys, and all take little memory and a possible dispatch."""
    pieces = tile.pieces
    few = pieces == 1 or (kept_bytes(op, pieces) <= MOST_KEPT and op.batch * pieces <= gpu.workgroups)
    return few and (pieces - 1) * piece_keys(op, tile) < op.keys


def adding_ns(op: Attention, pieces: int) -> float:
    """Return the estimated ns of adding pieces, 0 where there is one."""
    return ADDING + kept_bytes(op, pieces) / ADDED if pieces > 1 else 0.0


def in_pieces(
    op: Attention, tile: FlashMatrixTile | FlashTile, gpu: Gpu, name: str, wgsl: str, step: str
) -> list[Dispatch]:
    """Return the dispatch of `wgsl`, which computes `op` by `tile`, and what adds its pieces, if any."""
    width = row_width(op)
    heads = {"q": op.q, "k": op.k, "v": op.v, "y": op.y}
    bound = {letter: (each.value, width) for letter, each in heads.items()}
    mask = {} if op.mask is None else {"mask": (op.mask, 1)}
    params: dict[str, int | float] = {
        "queries": op.queries,
        "keys": op.keys,
        "scale": float(op.scale * LOG2_E),
    }
    for letter, each in heads.items():
        for part in ("offset", "batch", "head", "row"):
            params[f"{letter}_{part}"] = getattr(each, part) // width
    if tile.pieces > 1:
        params |= {"piece_keys": piece_keys(op, tile), "batches": op.batch, "heads": op.heads}
    result = {"y": bound.pop("y")}
    parts = kept_pieces(op, tile.pieces)
    first = shader_dispatch(
        f"flash attention {op.size}, {name}",
        wgsl,
        bound | mask,
        result if tile.pieces == 1 else parts,
        params,
        (-(-op.queries // tile.queries), op.heads, op.batch * tile.pieces),
        op.flops,
        step,
    )
    return [first] if tile.pieces == 1 else [first, add_pieces(op, parts, tile.pieces, gpu, step)]


def kept_pieces(op: Attention, pieces: int) -> dict[str, tuple[Value, int]]:
    """Return the bindings of sums (piece, batch, head, query, value) and of references and shares' sums."""
    rows = pieces * op.batch * op.heads * op.queries
    parts = Value(f"{op.y.value.name}.pieces", "f32", rows * -(-op.value_size // 4) * 4)
    statistics = Value(f"{op.y.value.name}.statistics", "f32", rows * 2)
    return {"parts": (parts, 4), "statistics": (statistics, 2)}


def kept_bytes(op: Attention, pieces: int) -> int:
    """Return the bytes of what `kept_pieces` hold."""
    return sum(value.count * BYTES[value.element] for value, _ in kept_pieces(op, pieces).values())


def add_pieces(
    op: Attention, parts: dict[str, tuple[Value, int]], pieces: int, gpu: Gpu, step: str
) -> Dispatch:
    """Return the dispatch that adds what `kept_pieces` hold."""
    width, rows = row_width(op), op.batch * op.heads * op.queries
    vectors = -(-op.value_size // 4)
    store = fill(STORES[width], size=op.value_size, y_element=op.y.value.element)
    places = {f"y_{part}": getattr(op.y, part) // width for part in ("offset", "batch", "head", "row")}
    return shader_dispatch(
        "flash attention add",
        store + fill(_ADD, vectors=vectors, pieces=pieces, lowest=LOWEST),
        parts,
        {"y": (op.y.value, width)},
        {"rows": rows, "queries": op.queries, "heads": op.heads} | places,
        groups_for(-(-rows * vectors // 64), gpu.workgroups),
        0,
        step,
    )

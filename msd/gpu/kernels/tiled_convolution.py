"""A convolution as a tiled matrix product; few tiles share their sums among several workgroups."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msd.gpu.gpu import Element, Gpu
from msd.gpu.kernels.epilogue import Finish, factor_function, finish
from msd.gpu.kernels.images import image_operand, image_params, image_width
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.operands import filter_operand
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.tile import AnyTile, Tile, TileOperand, each_sum, tiled
from msd.gpu.kernels.wide_operands import HALVES, wide_filter, wide_image, wide_words
from msd.gpu.kernels.widening import filter_words, raw_width, tile_shrink, tile_widening
from msd.gpu.operations import Conv2D, Filter
from msd.gpu.value import Dispatch, Value
from msd.gpu.wgsl import fill, groups_for


def tiled_convolution(op: Conv2D, gpu: Gpu, tile: AnyTile, splits: int = 1, step: str = "") -> list[Dispatch]:
    """Return the dispatches of a convolution in tiles.

    With `splits`, that many workgroups share a tile: each sums a part of K, times the column's scale, into a
    scratch value that is stored as the result is, and a second dispatch adds the parts. Raises
    ValueError where a gate needs threads with eight columns.
    """
    end = finish(op, 1 / tile_shrink(op.filter, tile))
    if op.epilogue.gate and isinstance(tile, Tile) and tile.thread_columns != 8:
        raise ValueError(f"a gate needs threads of eight columns; {tile} has {tile.thread_columns}")
    if splits > 1:
        return _split(op, gpu, tile, splits, end, step)
    return [_whole(op, gpu, tile, end, step)]


def tile_counts(rows: int, columns: int, tile: AnyTile) -> dict[str, int]:
    """Return the parameters that count tiles."""
    across = -(-columns // tile.columns)
    return {"tiles": -(-rows // tile.rows) * across, "tile_columns": across}


def _whole(op: Conv2D, gpu: Gpu, tile: AnyTile, end: Finish, step: str) -> Dispatch:
    gate = bool(op.epilogue.gate)
    operands = _operands(op, tile, gate)
    body = tiled(
        tile,
        *operands.both,
        "let begin = 0u;\nlet end = p.depth;",
        _finishing(tile, gate),
        operands.widening + end.functions,
    )
    params = _params(op, tile) | end.params
    return shader_dispatch(
        f"convolution {tile}",
        body,
        operands.reads | end.reads,
        end.writes,
        params,
        groups_for(params["tiles"], gpu.workgroups),
        op.flops,
        step,
    )


def _finishing(tile: AnyTile, gate: bool) -> str:
    """Return the WGSL that finishes each sum; factors and shifts are read once for each column."""
    if gate:
        return each_sum(tile, True, lambda row, column, s: f"finish({row}, {column}, {s[0]}, {s[1]});")
    if isinstance(tile, MatrixTile):
        return each_sum(tile, False, lambda row, column, s: f"finish({row}, {column}, {s[0]});")
    vectors = range(tile.thread_columns // 4)
    lines = []
    for j in vectors:
        at = f"min(first_column + lane + {j * tile.lanes}u, p.columns4 - 1u)"
        lines += [f"let factor{j} = factor({at});", f"let shift{j} = shift({at});"]

    def use(row: str, column: str, sums: list[str]) -> str:
        j = sums[0].rsplit("_", 1)[1]
        return f"put({row}, {column}, fma({sums[0]}, factor{j}, shift{j}));"

    return "\n".join(lines) + "\n" + each_sum(tile, False, use)


_PARTIAL = """
fn keep(slice: u32, row: u32, column: u32, sums: vec4<f32>) {
    if (row < p.rows && column < p.columns4) {
        let at = (slice * p.rows + row) * p.columns4 + column;
        partial[at] = vec4<$element>(sums * factor(column) * $least);
    }
}
"""

LEAST = 1 / 16
"""The factor of partial sums, which may be that much larger than a result in f16 without an overflow."""

_ADD = """
$functions
fn total(row: u32, column: u32) -> vec4<f32> {
    var sums = vec4<f32>(0.0);
    for (var slice = 0u; slice < p.slices; slice++) {
        sums += vec4<f32>(partial[(slice * p.rows + row) * p.columns4 + column]);
    }
    return sums * $most;
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let number = (group.x + group.y * groups.x) * 64u + thread;
    let row = number / p.out_columns4;
    let column = number % p.out_columns4;
    if (row >= p.rows) { return; }
    $finish
}
"""


def _split(op: Conv2D, gpu: Gpu, tile: AnyTile, splits: int, end: Finish, step: str) -> list[Dispatch]:
    steps = -(-op.filter.rows // tile.depth)
    part = -(-steps // splits) * tile.depth
    slices = -(-op.filter.rows // part)
    columns4 = end.params["columns4"]
    sums = Value(f"{op.y.name}.partial", op.y.element, slices * op.pixels * columns4 * 4)
    operands = _operands(op, tile)
    body = tiled(
        tile,
        *operands.both,
        "let begin = group.z * p.part;\nlet end = min(begin + p.part, p.depth);",
        each_sum(tile, False, lambda row, column, s: f"keep(group.z, {row}, {column}, {s[0]});"),
        operands.widening + _partial(op, tile, sums.element),
    )
    params = _params(op, tile) | end.params | {"part": part}
    across, down, _ = groups_for(params["tiles"], gpu.workgroups)
    first = shader_dispatch(
        f"convolution {tile} split",
        body,
        operands.reads | {name: bound for name, bound in end.reads.items() if name == "scale"},
        {"partial": (sums, 4)},
        params,
        (across, down, slices),
        op.flops,
        step,
    )
    scaled = finish(replace(op, filter=replace(op.filter, scale=None)))
    return [first, _added(gpu, sums, slices, scaled, bool(op.epilogue.gate), step)]


def _partial(op: Conv2D, tile: AnyTile, element: Element) -> str:
    """Return the functions that keep a partial sum."""
    functions = factor_function(op.filter, 1 / tile_shrink(op.filter, tile))
    return functions + fill(_PARTIAL, element=element, least=LEAST)


def _added(gpu: Gpu, sums: Value, slices: int, end: Finish, gate: bool, step: str) -> Dispatch:
    call = "finish(row, column, total(row, column));"
    if gate:
        call = "finish(row, column, total(row, 2u * column), total(row, 2u * column + 1u));"
    vectors = end.params["rows"] * end.params["out_columns4"]
    return shader_dispatch(
        "convolution add",
        fill(_ADD, functions=end.functions, finish=call, most=1 / LEAST),
        {"partial": (sums, 4)} | end.reads,
        end.writes,
        end.params | {"slices": slices},
        groups_for(-(-vectors // 64), gpu.workgroups),
        0,
        step,
    )


@dataclass(frozen=True)
class _Operands:
    """Both operands, their bindings, and the functions that widen weights."""

    both: tuple[TileOperand, TileOperand]
    reads: dict[str, tuple[Value, int]]
    widening: str


def _operands(op: Conv2D, tile: AnyTile, pairs: bool = False) -> _Operands:
    """Return the operands of a convolution, read in wide vectors where they fit.

    `pairs`: a thread finds values and gates beside each other, as `operands.vector_operand` says.
    """
    left, width = wide_image(op, tile), HALVES
    if left is None:
        left, width = image_operand(op, tile), image_width(op)
    right, words, widening = filter_operands(op.filter, tile, pairs)
    reads = {"x": (op.x, width), "weights": (op.filter.values, words)}
    return _Operands((left, right), reads, widening)


def filter_operands(
    filter_: Filter, tile: AnyTile, pairs: bool = False, number: str = ""
) -> tuple[TileOperand, int, str]:
    """Return a filter as a right operand, the width of its binding, and the functions that widen it.

    `number` is an expression of how many filters of as many rows lie before it, none where it is empty.
    """
    before = f"{number} * p.depth" if number else "0u"
    if (words := wide_words(tile, filter_)) and isinstance(tile, MatrixTile):
        width = HALVES if filter_.stored == "f16" else words
        wide = wide_filter(tile, filter_, before)
        return wide, width, tile_widening(filter_, tile, read=False)
    narrow = filter_operand(tile, filter_, pairs, f"{before} * p.filter_words" if number else before)
    return narrow, raw_width(filter_), tile_widening(filter_, tile)


def _params(op: Conv2D, tile: AnyTile) -> dict[str, int]:
    counts = tile_counts(op.pixels, op.filter.columns, tile)
    words = {"depth": op.filter.rows, "filter_words": filter_words(op.filter)}
    return counts | words | image_params(op)

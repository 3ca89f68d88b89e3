"""A convolution as a tiled matrix product; few tiles share their sums among several workgroups."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from msd.gpu.gpu import Element, Gpu
from msd.gpu.kernels.epilogue import Finish, factor_function, finish
from msd.gpu.kernels.images import image_operand, image_params, image_width
from msd.gpu.kernels.matrix_tile import MatrixTile, direct_operand, matrix_partials
from msd.gpu.kernels.operands import filter_operand
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.tile import AnyTile, Tile, TileOperand, each_sum, tiled
from msd.gpu.kernels.wide_operands import fits_wide, wide_filter, wide_image, wide_words
from msd.gpu.kernels.widening import filter_words, raw_width, tile_shrink, tile_widening
from msd.gpu.operations import Conv2D
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
    body = tiled(
        tile,
        _left(op, tile),
        _right(op, tile, gate),
        "let begin = 0u;\nlet end = p.depth;",
        _finishing(tile, gate),
        _widening(op, tile) + end.functions,
    )
    params = _params(op, tile) | end.params
    return shader_dispatch(
        f"convolution {tile}",
        body,
        _reads(op, tile) | end.reads,
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
    direct = isinstance(tile, MatrixTile) and tile.partials and op.pixels % 16 == op.filter.columns % 16 == 0
    steps = -(-op.filter.rows // tile.depth)
    part = -(-steps // splits) * tile.depth
    slices = -(-op.filter.rows // part)
    columns4 = end.params["columns4"]
    sums = Value(f"{op.y.name}.partial", "f32" if direct else op.y.element, slices * op.pixels * columns4 * 4)
    body = tiled(
        tile,
        _left(op, tile),
        _right(op, tile),
        "let begin = group.z * p.part;\nlet end = min(begin + p.part, p.depth);",
        matrix_partials(cast(MatrixTile, tile))
        if direct
        else each_sum(tile, False, lambda row, column, s: f"keep(group.z, {row}, {column}, {s[0]});"),
        _widening(op, tile) if direct else _partial(op, tile, sums.element),
    )
    params = _params(op, tile) | end.params | {"part": part}
    across, down, _ = groups_for(params["tiles"], gpu.workgroups)
    first = shader_dispatch(
        f"convolution {tile} split",
        body,
        _reads(op, tile)
        | {name: bound for name, bound in end.reads.items() if name == "scale" and not direct},
        {"partial": (sums, 1 if direct else 4)},
        params,
        (across, down, slices),
        op.flops,
        step,
    )
    if direct:
        return [first, _added(gpu, sums, slices, end, bool(op.epilogue.gate), step, 1.0)]
    scaled = finish(replace(op, filter=replace(op.filter, scale=None)))
    return [first, _added(gpu, sums, slices, scaled, bool(op.epilogue.gate), step)]


def _partial(op: Conv2D, tile: AnyTile, element: Element) -> str:
    """Return the functions that keep a partial sum."""
    functions = _widening(op, tile) + factor_function(op.filter, 1 / tile_shrink(op.filter, tile))
    return functions + fill(_PARTIAL, element=element, least=LEAST)


def _added(
    gpu: Gpu, sums: Value, slices: int, end: Finish, gate: bool, step: str, most: float = 1 / LEAST
) -> Dispatch:
    call = "finish(row, column, total(row, column));"
    if gate:
        call = "finish(row, column, total(row, 2u * column), total(row, 2u * column + 1u));"
    vectors = end.params["rows"] * end.params["out_columns4"]
    return shader_dispatch(
        "convolution add",
        fill(_ADD, functions=end.functions, finish=call, most=most),
        {"partial": (sums, 4)} | end.reads,
        end.writes,
        end.params | {"slices": slices},
        groups_for(-(-vectors // 64), gpu.workgroups),
        0,
        step,
    )


def _reads(op: Conv2D, tile: AnyTile) -> dict[str, tuple[Value, int]]:
    x, weights = image_width(op), raw_width(op.filter)
    if isinstance(tile, MatrixTile):
        x = 1 if tile.direct[0] else 8 if tile.wide and fits_wide(op, tile) else x
        if tile.wide and (words := wide_words(tile, op.filter)):
            weights = words if op.filter.stored == "int8" else 2 * words
        weights = 1 if tile.direct[1] else weights
    return {"x": (op.x, x), "weights": (op.filter.values, weights)}


def _left(op: Conv2D, tile: AnyTile) -> TileOperand:
    if isinstance(tile, MatrixTile) and tile.direct[0]:
        rows = "min(first_row + block_row + {}u, p.rows - " + f"{tile.unit.rows}u)"
        return TileOperand(
            *direct_operand(tile, "left", rows, lambda row: f"{row} * p.channels", "p.channels", "x")
        )
    if isinstance(tile, MatrixTile) and tile.wide and fits_wide(op, tile):
        return wide_image(op, tile)
    return image_operand(op, tile)


def _right(op: Conv2D, tile: AnyTile, gate: bool = False) -> TileOperand:
    if isinstance(tile, MatrixTile) and tile.wide and wide_words(tile, op.filter):
        return wide_filter(tile, op.filter)
    return filter_operand(tile, op.filter, gate)


def _widening(op: Conv2D, tile: AnyTile) -> str:
    wide = isinstance(tile, MatrixTile) and tile.wide and wide_words(tile, op.filter) > 0
    return tile_widening(op.filter, tile, not wide)


def _params(op: Conv2D, tile: AnyTile) -> dict[str, int]:
    counts = tile_counts(op.pixels, op.filter.columns, tile)
    words = {"depth": op.filter.rows, "filter_words": filter_words(op.filter)}
    return counts | words | image_params(op)

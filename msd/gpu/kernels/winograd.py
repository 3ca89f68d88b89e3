"""3x3 convolutions by Winograd's minimal filtering (Lavin and Gray, arXiv 1509.09308).

The input's tiles of t+2 by t+2 are transformed, (t+2)^2 products over the channels replace those under nine
taps, and their results are transformed to tiles of t by t: 9 t^2 / (t+2)^2 times fewer multiplications.
Transforms compute in f32 and are stored as activations are.

Error to float64 of normal numbers under a 3x3 filter of 64 channels, simulated in NumPy: tiles of 2, 4, 6 and
8 keep 131, 123, 110 and 95 dB where transforms are stored in f32, 64, 55, 42 and 27 dB in f16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from msd.gpu.gpu import BYTES, Element, Gpu
from msd.gpu.kernels.epilogue import finish
from msd.gpu.kernels.filters import padded_columns
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.operands import block_operand
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.tile import AnyTile, TileOperand, each_sum, tiled
from msd.gpu.kernels.tile_choice import choose_tile
from msd.gpu.kernels.tiled_convolution import filter_operands, tile_counts
from msd.gpu.kernels.wide_operands import HALVES, fits_wide, wide_rows
from msd.gpu.kernels.widening import (
    filter_words,
    fits_half,
    is_bounded,
    raw_width,
    shrunk_by,
    tile_shrink,
    widening,
)
from msd.gpu.kernels.winograd_matrices import as_array, winograd_matrices
from msd.gpu.kernels.winograd_transforms import (
    INPUT_ALONE,
    INPUT_AND_FILTER,
    filter_transform,
    input_transform,
    output_transform,
)
from msd.gpu.operations import Conv2D, Filter, Normalised, Stored
from msd.gpu.value import Dispatch, Value
from msd.gpu.wgsl import groups_for

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

WIDTH = {2: 4, 4: 4, 6: 2, 8: 1}
"""The channels of a thread that transforms an input: (t+2)^2 of them must stay in its registers."""

FULL = 4608
"""The threads of a processor of which each may have four channels of a tile of 4. Of fewer, each has two: on
an H200 96x96 pixels of 512 channels, with their norm and the filter, take 0.034 ms then, for 0.042."""

LEAST_TILES = 64
"""The fewest tiles of a chosen transform: the products' rows. With fewer, on an H100, reading the transformed
filters takes longer than the direct convolution (scripts/lab/bench_kernels.py)."""

LEAST_CHANNELS = 32
"""The fewest channels on either side: with fewer, transforms take longer than the products save."""


def fits_winograd(op: Conv2D) -> bool:
    """Return whether `winograd` computes the operation."""
    plain = op.kernel == (3, 3) and op.stride == (1, 1) and op.dilation == (1, 1)
    return plain and op.channels % 4 == 0 and not op.epilogue.gate


def choose_winograd(op: Conv2D, gpu: Gpu) -> int | None:
    """Return the tile, 4 as in arXiv 2304.11267, or None where the convolution is better direct.

    Its rule: tiles, channels and memory, with bounds measured on an H100.
    """
    if not fits_winograd(op) or min(op.channels, op.filter.columns) < LEAST_CHANNELS:
        return None
    tiles, scratch = tile_count(op, 4), winograd_bytes(op, 4, gpu)
    return 4 if tiles >= LEAST_TILES and max(scratch) <= gpu.binding_bytes else None


def tile_count(op: Conv2D, tile: int) -> int:
    """Return the tiles of all images of the result."""
    return op.batch * -(-op.out_height // tile) * -(-op.out_width // tile)


def winograd_bytes(op: Conv2D, tile: int, gpu: Gpu) -> tuple[int, int, int]:
    """Return the bytes of the transformed input, the transformed filter, and the products."""
    each = (tile + 2) ** 2 * BYTES[gpu.real]
    tiles, columns = tile_count(op, tile), padded_columns("f16", op.filter.columns)
    return tiles * op.channels * each, op.channels * columns * each, tiles * columns * each


def transform_filter(weights: Array, tile: int) -> Array:
    """Return G g G^T of OHWI weights: (tile+2)^2 x channels x outputs, f32.

    Raises ValueError for other filters than 3x3.
    """
    if weights.shape[1:3] != (3, 3):
        raise ValueError(f"Winograd's filters here are 3x3; this one has shape {weights.shape}")
    matrix = as_array(winograd_matrices(tile).filter)
    taps = np.ascontiguousarray(weights.transpose(1, 2, 3, 0), np.float32)
    return (np.kron(matrix, matrix).astype(np.float32) @ taps.reshape(9, -1)).reshape(-1, *taps.shape[2:])


def transformed_filter(
    load: Callable[[], Array],
    outputs: int,
    channels: int,
    tile: int,
    gpu: Gpu,
    name: str,
    stored: Stored = "f32",
) -> Filter:
    """Return a filter that is transformed when it is uploaded, f16 where the GPU has it, else f32.

    `load()` returns OHWI weights: integers without their scale, which `winograd` takes from the operation.
    Those of a file that has them `stored` as integers are `shrunk`: rows of G sum up to one at most.
    """
    shrunk = shrunk_by(stored)
    columns = padded_columns("f16", outputs)

    def packed() -> Array:
        result = np.zeros(((tile + 2) ** 2, channels, columns), np.float16 if gpu.half else np.float32)
        result[..., :outputs] = transform_filter(load(), tile) * np.float32(shrunk)
        return result

    rows = (tile + 2) ** 2 * channels
    value = Value(name, gpu.real, rows * columns, packed)
    return Filter(value, _stored(gpu), rows, outputs, shrunk=shrunk)


def filter_of_run(op: Conv2D, tile: int, gpu: Gpu) -> Filter:
    """Return the transform of an operation's packed filter that each run makes.

    The weights can then stay packed in memory, and their transform lives for one operation only.
    """
    rows, columns4 = (tile + 2) ** 2 * op.channels, -(-op.filter.columns // 4)
    value = Value(f"{op.filter.values.name}.winograd", gpu.real, rows * columns4 * 4)
    return Filter(value, _stored(gpu), rows, op.filter.columns, shrunk=shrunk_by(op.filter.stored))


def _stored(gpu: Gpu) -> Stored:
    return "f16" if gpu.half else "f32"


def winograd(
    op: Conv2D,
    filter_: Filter,
    tile: int,
    gpu: Gpu,
    step: str = "",
    size: AnyTile | None = None,
    norm: Normalised | None = None,
) -> list[Dispatch]:
    """Return the three dispatches of a 3x3 convolution with a transformed filter, whose scale is op.filter's.

    The filter is a constant, or that of `filter_of_run`, which is transformed beside the input.

    `size` is the tile of the products; the best for the GPU where it is None. With `norm`, its image is read
    instead of op.x. Raises ValueError for operations that `fits_winograd` refuses, and for filters of another
    tile.
    """
    if not fits_winograd(op):
        raise ValueError(
            "Winograd's convolutions here are 3x3, of stride 1, of channels in fours, without a gate"
        )
    if filter_.rows != (tile + 2) ** 2 * op.channels:
        raise ValueError(f"a filter of {filter_.rows} rows is not transformed for tiles of {tile}")
    sizes = (tile + 2) ** 2 * tile_count(op, tile)
    v = Value(f"{op.y.name}.tiles", gpu.real, sizes * op.channels)
    m = Value(f"{op.y.name}.products", gpu.real, sizes * padded_columns("f16", op.filter.columns))
    return [
        _input(op, v, filter_, tile, gpu, step, norm),
        _products(op, v, m, filter_, tile, size, gpu, step),
        _output(op, m, tile, gpu, step),
    ]


def _tile_params(op: Conv2D, tile: int) -> dict[str, int]:
    across = -(-op.out_width // tile)
    tiles = -(-op.out_height // tile) * across
    return {"tiles": op.batch * tiles, "image_tiles": tiles, "tiles_across": across}


def input_width(op: Conv2D, tile: int, gpu: Gpu) -> int:
    """Return the channels of a thread that transforms an input."""
    threads = tile_count(op, tile) * op.channels // WIDTH[tile]
    return 2 if tile == 4 and gpu.is_large and threads < FULL * gpu.processors else WIDTH[tile]


def _input(
    op: Conv2D, v: Value, filter_: Filter, tile: int, gpu: Gpu, step: str, norm: Normalised | None
) -> Dispatch:
    width = input_width(op, tile, gpu)
    params = _input_params(op, tile, width)
    matrix, activation = winograd_matrices(tile).input, norm.activation if norm else None
    body = input_transform(matrix, tile, op.upsample, width, v.element, activation)
    groups = -(-params["tiles"] * params["vectors"] // 64)
    reads, writes = {"x": (norm.x if norm else op.x, width)}, {"v": (v, width)}
    reads |= {"factors": (norm.factors, width)} if norm else {}
    name = f"winograd {tile} input" + ", norm" * bool(norm)
    if filter_.values.load is None:
        columns4 = -(-op.filter.columns // 4)
        params |= {"channels": op.channels, "columns4": columns4, "filter_words": filter_words(op.filter)}
        params["input_groups"] = groups
        body += _filter_transform(op, tile, v.element) + INPUT_AND_FILTER
        reads["weights"], writes["u"] = (op.filter.values, raw_width(op.filter)), (filter_.values, 4)
        groups += -(-op.channels * columns4 // 64)
        name += " and filter"
    else:
        body += INPUT_ALONE
    computed = transform_flops(tile, tile + 2) * params["tiles"] * op.channels
    sizes = groups_for(groups, gpu.workgroups)
    return shader_dispatch(name, body, reads, writes, params, sizes, 0, step, computed)


def _input_params(op: Conv2D, tile: int, width: int) -> dict[str, int]:
    return _tile_params(op, tile) | {
        "vectors": op.channels // width,
        "height": op.height * op.upsample,
        "width": op.width * op.upsample,
        "image_rows": op.height,
        "row_pixels": op.width,
        "pad_y": op.pad[0],
        "pad_x": op.pad[1],
    }


def _filter_transform(op: Conv2D, tile: int, element: Element) -> str:
    shrunk = shrunk_by(op.filter.stored)
    return filter_transform(winograd_matrices(tile).filter, widening(op.filter), element, shrunk)


_KEEP = """
fn keep(n: u32, row: u32, column: u32, sums: vec4<f32>) {
    if (row < p.rows && column < p.columns4) {
        m[(n * p.rows + row) * p.columns4 + column] = vec4<%s>(sums);
    }
}
"""


def _products(
    op: Conv2D, v: Value, m: Value, filter_: Filter, tile: int, size: AnyTile | None, gpu: Gpu, step: str
) -> Dispatch:
    """Return the product of each element of the tiles over the channels; sums get their scale here.

    Without it, products with integers could be too large for f16.
    """
    rows, columns = tile_count(op, tile), op.filter.columns
    one = replace(filter_, rows=op.channels, columns=columns)
    if size is None:
        bounded = is_bounded(filter_)
        halves = fits_half(filter_)
        shape = (rows, columns, op.channels)
        size = choose_tile(*shape, gpu, (tile + 2) ** 2, bounded=bounded, halves=halves).tile
    scale, grow = op.filter.scale, 1 / (filter_.shrunk * tile_shrink(filter_, size))

    def use(row: str, column: str, sums: list[str]) -> str:
        factor = f" * scale[min({column}, p.columns4 - 1u)]" if scale else ""
        return f"keep(group.z, {row}, {column}, {sums[0]} * {grow!r}{factor});"

    left, left_width = _tile_operand(op, v, size)
    right, right_width, widening_ = filter_operands(one, size, number="group.z")
    body = tiled(
        size,
        left,
        right,
        "let begin = 0u;\nlet end = p.depth;",
        each_sum(size, False, use),
        widening_ + _KEEP % m.element,
    )
    params = tile_counts(rows, columns, size) | {
        "rows": rows,
        "columns4": -(-columns // 4),
        "depth": op.channels,
        "filter_words": filter_words(one),
    }
    across, down, _ = groups_for(params["tiles"], gpu.workgroups)
    reads = {"v": (v, left_width), "weights": (filter_.values, right_width)} | (
        {"scale": (scale, 4)} if scale else {}
    )
    groups = (across, down, (tile + 2) ** 2)
    name = f"winograd {tile} products {size}"
    computed = 2 * (tile + 2) ** 2 * rows * op.channels * columns
    return shader_dispatch(name, body, reads, {"m": (m, 4)}, params, groups, op.flops, step, computed)


def _tile_operand(op: Conv2D, v: Value, size: AnyTile) -> tuple[TileOperand, int]:
    """Return the transformed input of all tiles as a left operand, and the width of its binding."""
    if fits_wide(size, v.element, op.channels) and isinstance(size, MatrixTile):
        first, line = "group.z * p.rows", "first_row + left_line{i}"
        return wide_rows(size, "v", line, "p.depth", op.channels, first), HALVES

    def setup(name: str) -> str:
        rows = f"min(first_row + {name}_line + {{}}u, p.rows - 1u)"
        at = "let {name}_at{i} = ((group.z * p.rows + {row}) * p.depth + {name}_k) / 4u;\n"
        return "".join(at.format(name=name, i=i, row=rows.format(i)) for i in range(4))

    def fetch(name: str) -> str:
        read = "".join(f"{name}_{i} = v[{name}_at{i} + k / 4u];\n" for i in range(4))
        if op.channels % size.depth == 0:
            return read
        zero = "".join(f"{name}_{i} = vec4<{v.element}>();\n" for i in range(4))
        return zero + f"if (k + {name}_k < p.depth) {{\n{read}}}\n"

    return block_operand(size, "left", v.element, setup, fetch), 4


def _output(op: Conv2D, m: Value, tile: int, gpu: Gpu, step: str) -> Dispatch:
    end = finish(op)
    params = _tile_params(op, tile) | {"out_height": op.out_height, "out_width": op.out_width} | end.params
    body = output_transform(winograd_matrices(tile).output, tile, end.functions)
    reads = {"m": (m, 4)} | {name: bound for name, bound in end.reads.items()}
    groups = groups_for(-(-params["tiles"] * params["columns4"] // 64), gpu.workgroups)
    computed = transform_flops(tile, tile) * params["tiles"] * op.filter.columns
    return shader_dispatch(
        f"winograd {tile} output", body, reads, end.writes, params, groups, 0, step, computed
    )


def transform_flops(tile: int, result: int) -> int:
    """Return the additions and multiplications of a transform's two products, as if no factor were zero."""
    return 2 * result * (tile + 2) * (result + tile + 2)

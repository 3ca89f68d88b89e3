"""Products of activations in tiles, with operands that lie in memory in any order."""

from __future__ import annotations

from dataclasses import replace

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.operands import block_operand, plain, vector_operand
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.tile import AnyTile, TileOperand, each_sum, tiled
from msd.gpu.kernels.tile_choice import choose_tile
from msd.gpu.kernels.tiled_convolution import tile_counts
from msd.gpu.operations import Matrices, Product
from msd.gpu.value import Dispatch
from msd.gpu.wgsl import fill, groups_for


def multiply(op: Product, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the dispatches of a batched product of activations.

    With `stats`, an element of a becomes a probability while it is brought into workgroup memory, so that
    probabilities are never stored: the second half of the partially fused softmax of arXiv 2304.11267,
    section 3.3.
    """
    # Shares of a row sum up to one, so that their sums with values are bounded.
    bounded = op.stats is not None
    halves = op.a.value.element == op.b.value.element == "f16"
    shape = (op.rows, op.columns, op.depth)
    tile = choose_tile(*shape, gpu, op.batch, split=False, bounded=bounded, halves=halves).tile
    return tiled_product(op, gpu, tile, step)


def tiled_product(op: Product, gpu: Gpu, tile: AnyTile, step: str = "") -> list[Dispatch]:
    """Return the dispatches of a product in tiles of this size, one for each 65535 products at most."""
    most = gpu.workgroups
    return [
        _dispatch(op, gpu, tile, first, min(most, op.batch - first), step)
        for first in range(0, op.batch, most)
    ]


def _dispatch(op: Product, gpu: Gpu, tile: AnyTile, first: int, batch: int, step: str) -> Dispatch:
    wide_y = _lies_along(op.y, "column") and op.columns % 4 == 0
    left, left_width = _lines(op, tile, "left")
    right, right_width = _lines(op, tile, "right")
    if op.a.value is op.b.value and left_width != right_width:  # it can be bound only once
        left, left_width = _blocks(op, tile, "left", False), 1
        right, right_width = _blocks(op, tile, "right", False), 1
    body = tiled(
        tile,
        left,
        right,
        "let begin = 0u;\nlet end = p.depth;\nlet n = group.z + p.first;",
        each_sum(tile, False, lambda row, column, s: f"keep(n, {row}, {column}, {s[0]});"),
        _keep(op, wide_y),
    )
    params: dict[str, int | float] = {
        **tile_counts(op.rows, op.columns, tile),
        "rows": op.rows,
        "columns": op.columns,
        "depth": op.depth,
        "first": first,
        "scale": float(op.scale),
    }
    for name, matrices in (("a", op.a), ("b", op.b), ("y", op.y)):
        params |= {f"{name}_{key}": getattr(matrices, key) for key in ("offset", "batch", "row", "column")}
    stats = {"stats": (op.stats, 2)} if op.stats else {}
    across, down, _ = groups_for(int(params["tiles"]), gpu.workgroups)
    return shader_dispatch(
        f"product {tile}",
        body,
        {"a": (op.a.value, left_width), "b": (op.b.value, right_width)} | stats,
        {"y": (op.y.value, 4 if wide_y else 1)},
        params,
        (across, down, batch),
        op.flops * batch // op.batch,
        step,
    )


def _lies_along(matrices: Matrices, axis: str) -> bool:
    """Return whether elements along an axis are consecutive, and all else begins at multiples of four."""
    other = matrices.row if axis == "column" else matrices.column
    steps = (matrices.offset, matrices.batch, other)
    return getattr(matrices, axis) == 1 and all(step % 4 == 0 for step in steps)


def _lines(op: Product, tile: AnyTile, array: str) -> tuple[TileOperand, int]:
    """Return an operand and the width of its binding's elements.

    By vectors along K where they lie so, else, for b, by vectors along its columns, else by elements.
    """
    if array == "left":
        along = _lies_along(op.a, "column") and op.depth % 4 == 0
        return _blocks(op, tile, "left", along), 4 if along else 1
    if _lies_along(op.b, "row") and op.depth % 4 == 0:
        return _blocks(op, tile, "right", True), 4
    if _lies_along(op.b, "column") and op.columns % 4 == 0:
        return _vectors(op, tile), 4
    return _blocks(op, tile, "right", False), 1


_LINE = """
let ${n}_number$i = min($first + ${n}_line + ${i}u, p.$count - 1u);
let ${n}_at$i = p.${m}_offset + n * p.${m}_batch + ${n}_number$i * p.${m}_$line;
"""

_ELEMENTS = """
for (var z = 0u; z < 4u; z++) {
    let at = min(k + ${n}_k + z, p.depth - 1u);
    let inside = k + ${n}_k + z < p.depth;
$lines
}
"""

_ELEMENT = "    ${n}_$i[z] = select($kind(0.0), ${m}[${n}_at$i + at * p.${m}_$along], inside);\n"

_STATS = """
let ${n}_stats$i = stats[n * p.rows + ${n}_number$i];
let ${n}_share$i = 1.0 / ${n}_stats$i.y;
"""


def _blocks(op: Product, tile: AnyTile, array: str, along: bool) -> TileOperand:
    """Return an operand in blocks of 4 x 4, read by vectors `along` K or by elements."""
    left = array == "left"
    matrices, m = (op.a, "a") if left else (op.b, "b")
    kind = matrices.value.element
    first, count = ("first_row", "rows") if left else ("first_column * 4u", "columns")
    line, k_axis = ("row", "column") if left else ("column", "row")
    stats = left and op.stats is not None

    def setup(name: str) -> str:
        lines = [fill(_LINE, n=name, i=i, first=first, count=count, m=m, line=line) for i in range(4)]
        return "".join(lines + [fill(_STATS, n=name, i=i) for i in range(4) if stats])

    def fetch(name: str) -> str:
        if not along:
            lines = "".join(fill(_ELEMENT, n=name, i=i, kind=kind, m=m, along=k_axis) for i in range(4))
            return fill(_ELEMENTS, n=name, lines=lines)
        zero = "".join(f"{name}_{i} = vec4<{kind}>();\n" for i in range(4))
        read = "".join(f"{name}_{i} = {m}[({name}_at{i} + k + {name}_k) / 4u];\n" for i in range(4))
        return read if op.depth % tile.depth == 0 else f"{zero}if (k + {name}_k < p.depth) {{\n{read}}}\n"

    def probability(name: str, i: int) -> str:
        shifted = f"vec4<f32>({name}_{i}) - vec4<f32>({name}_stats{i}.x)"
        return f"T4(exp({shifted}) * {name}_share{i})"

    widen = probability if stats else plain
    return replace(block_operand(tile, array, kind, setup, fetch, widen=widen), early=along)


def _vectors(op: Product, tile: AnyTile) -> TileOperand:
    kind = f"vec4<{op.b.value.element}>"

    def setup(name: str) -> str:
        column = f"min((first_column + {name}_column) * 4u, p.columns - 4u)"
        return f"let {name}_at = p.b_offset + n * p.b_batch + {column};\n"

    def fetch(name: str) -> str:
        read = f"{name}_0 = b[({name}_at + (k + {name}_k) * p.b_row) / 4u];\n"
        if op.depth % tile.depth == 0:
            return read
        return f"{name}_0 = {kind}();\nif (k + {name}_k < p.depth) {{ {read} }}\n"

    return vector_operand(tile, kind, setup, fetch, lambda name: f"T4({name}_0)")


def _keep(op: Product, wide: bool) -> str:
    """Return the function that writes four columns of a row."""
    kind = op.y.value.element
    head = "fn keep(n: u32, row: u32, column4: u32, sums: vec4<f32>) {\n"
    head += "let column = column4 * 4u;\nif (row >= p.rows || column >= p.columns) { return; }\n"
    head += "let at = p.y_offset + n * p.y_batch + row * p.y_row;\nlet v = sums * p.scale;\n"
    if wide:
        return head + f"y[(at + column) / 4u] = vec4<{kind}>(v);\n}}\n"
    writes = (
        f"if (column + {i}u < p.columns) {{ y[at + (column + {i}u) * p.y_column] = {kind}(v.{part}); }}\n"
        for i, part in enumerate("xyzw")
    )
    return head + "".join(writes) + "}\n"

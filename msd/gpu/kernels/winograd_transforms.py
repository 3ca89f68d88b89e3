"""Winograd's transforms in WGSL: of an input, of a filter, and of products to the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from msd.gpu.activation import activation_function
from msd.gpu.kernels.winograd_matrices import Rows
from msd.gpu.operations import Activation
from msd.gpu.wgsl import fill

INPUT = """
fn transform_input(number: u32) {
    let c = number % p.vectors;
    let tile = number / p.vectors;
    if (tile >= p.tiles) { return; }
    let image = tile / p.image_tiles;
    let top = i32(tile % p.image_tiles / p.tiles_across * ${tile}u) - i32(p.pad_y);
    let start = i32(tile % p.tiles_across * ${tile}u) - i32(p.pad_x);
    $rows
    $columns
    $norm
    $transform
}
"""

NORM = """
let factor = factors[2u * image * p.vectors + c];
let shift = factors[(2u * image + 1u) * p.vectors + c];
"""

FILTER = """
$functions
fn transform_filter(number: u32) {
    let column = number % p.columns4;
    let channel = number / p.columns4;
    if (channel >= p.channels) { return; }
    $read
    $transform
}
"""

MAIN = """
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let number = group.x + group.y * groups.x;
    $body
}
"""

INPUT_ALONE = fill(MAIN, body="transform_input(number * 64u + thread);")

INPUT_AND_FILTER = fill(
    MAIN,
    body="""if (number < p.input_groups) {
        transform_input(number * 64u + thread);
    } else {
        transform_filter((number - p.input_groups) * 64u + thread);
    }""",
)
"""Two transforms that do not depend on each other, side by side in one dispatch."""

OUTPUT = """
$functions
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let number = (group.x + group.y * groups.x) * 64u + thread;
    let column = number % p.columns4;
    let tile = number / p.columns4;
    if (tile >= p.tiles) { return; }
    let image = tile / p.image_tiles;
    let top = tile % p.image_tiles / p.tiles_across * ${tile}u;
    let start = tile % p.tiles_across * ${tile}u;
    let offset = shift(column);
    $transform
}
"""

_ROW = """
let y$i = u32(top + $i);
let row$i = (image * p.image_rows + min(y$i, p.height - 1u) / ${upsample}u) * p.row_pixels;
let inside$i = y$i < p.height;
"""

_COLUMN = """
let x$i = u32(start + $i);
let pixel$i = min(x$i, p.width - 1u) / ${upsample}u;
let within$i = x$i < p.width;
"""


def input_transform(
    matrix: Rows, tile: int, upsample: int, width: int, element: str, activation: Activation | None = None
) -> str:
    """Return transform_input, the WGSL of B^T d B for a tile of d and `width` channels a thread.

    A negative coordinate is a large one when it is unsigned; outside of the image d is zero. With an
    `activation`, d is that of each pixel times a factor plus a shift (msd.gpu.operations.Normalised).
    """
    size = range(tile + 2)
    kind = "f32" if width == 1 else f"vec{width}<f32>"
    stored = element if width == 1 else f"vec{width}<{element}>"

    def read(i: int, j: int) -> str:
        pixel = f"{kind}(x[(row{i} + pixel{j}) * p.vectors + c])"
        if activation is not None:
            pixel = f"activate(fma({pixel}, factor, shift))"
        return f"select({kind}(0.0), {pixel}, inside{i} && within{j})"

    def write(i: int, j: int, value: str) -> str:
        return f"v[({(tile + 2) * i + j}u * p.tiles + tile) * p.vectors + c] = {stored}({value});"

    function = "" if activation is None else activation_function(activation, width)
    return function + fill(
        INPUT,
        norm="" if activation is None else NORM,
        tile=tile,
        rows="".join(fill(_ROW, i=i, upsample=upsample) for i in size),
        columns="".join(fill(_COLUMN, i=i, upsample=upsample) for i in size),
        transform=both_sides(matrix, tile + 2, kind, read, write),
    )


def filter_transform(matrix: Rows, functions: str, element: str, factor: float = 1.0) -> str:
    """Return transform_filter, the WGSL of G g G^T times `factor` for a channel and four columns a thread.

    `functions` read and widen weights.
    """
    size = len(matrix)
    read = "\n".join(
        f"let g{i}_{j} = widen(raw_weights(0u, {3 * i + j}u * p.channels + channel, column));"
        for i in range(3)
        for j in range(3)
    )

    def write(i: int, j: int, value: str) -> str:
        return (
            f"u[({size * i + j}u * p.channels + channel) * p.columns4 + column] = "
            f"vec4<{element}>(({value}) * {factor!r});"
        )

    transform = both_sides(matrix, 3, "vec4<f32>", lambda i, j: f"g{i}_{j}", write)
    return fill(FILTER, functions=functions, read=read, transform=transform)


def output_transform(matrix: Rows, tile: int, functions: str) -> str:
    """Return the WGSL of A^T m A, its shift and the rest of the epilogue, for a tile and four columns a
    thread."""

    def write(i: int, j: int, value: str) -> str:
        return f"{put_pixel(i, j, value, inside(i, j))};"

    transform = both_sides(matrix, tile + 2, "vec4<f32>", read_products(tile), write)
    return fill(OUTPUT, functions=functions, tile=tile, transform=transform)


def inside(i: int, j: int) -> str:
    """Return whether a pixel of a tile is one of the image."""
    return f"top + {i}u < p.out_height && start + {j}u < p.out_width"


def put_pixel(i: int, j: int, value: str, condition: str) -> str:
    """Return the call that ends a pixel of a tile and writes it, under a condition."""
    row = f"image * p.image_pixels + (top + {i}u) * p.out_width + start + {j}u"
    return f"put(select(p.rows, {row}, {condition}), column, {value} + offset)"


def read_products(tile: int) -> Callable[[int, int], str]:
    """Return what reads four columns of the product of an element of `tile`."""

    def read(i: int, j: int) -> str:
        return f"vec4<f32>(m[({(tile + 2) * i + j}u * p.tiles + tile) * p.columns4 + column])"

    return read


def both_sides(
    matrix: Rows, size: int, kind: str, read: Callable[[int, int], str], write: Callable[[int, int, str], str]
) -> str:
    """Return the WGSL of M d M^T, d of size x size: each column of d is read and multiplied, then each
    row."""
    lines = []
    for j in range(size):
        lines += [f"let d{i}_{j} = {read(i, j)};" for i in range(size)]
        column = [f"d{i}_{j}" for i in range(size)]
        lines += [f"let t{a}_{j} = {_combined(row, column, kind)};" for a, row in enumerate(matrix)]
    for a in range(len(matrix)):
        line = [f"t{a}_{j}" for j in range(size)]
        lines += [write(a, b, _combined(row, line, kind)) for b, row in enumerate(matrix)]
    return "\n    ".join(lines)


def _combined(row: Sequence[Fraction], names: Sequence[str], kind: str) -> str:
    """Return the sum of the names times the row's numbers."""
    terms = [(float(n), name) for n, name in zip(row, names, strict=True) if n]
    text = f"{terms[0][1]} * {terms[0][0]!r}"
    for factor, name in terms[1:]:
        text = f"fma({kind}({factor!r}), {name}, {text})"
    return f"({text})"

"""Operands for matrix units that threads read eight halves, or four to sixteen weights, at a time."""

from __future__ import annotations

from collections.abc import Callable

from msd.gpu.kernels.images import corner_functions, is_pointwise
from msd.gpu.kernels.matrix_tile import MatrixTile, slice_at
from msd.gpu.kernels.tile import TileOperand
from msd.gpu.operations import Conv2D, Filter
from msd.gpu.wgsl import fill

HALVES = 8
"""The halves of a vector of four words."""


def fits_wide(op: Conv2D, tile: MatrixTile) -> bool:
    """Return whether a convolution's operands can be read so."""
    lines = tile.rows * tile.depth // HALVES
    residual = op.epilogue.residual is op.x or op.epilogue.vector is op.x
    return op.channels % HALVES == 0 and lines % tile.threads == 0 and not residual


def wide_lines(
    tile: MatrixTile, setup: Callable[[int], str], fetch: Callable[[int], str], advance: str = ""
) -> TileOperand:
    """Return a left operand of which a thread reads vectors `left_{i}` of eight along K.

    `left_k` is the place of all of them in the slice, `left_line{i}` the row of one.
    """
    steps = tile.depth // HALVES
    down = tile.threads // steps
    count = tile.rows // down
    texts = [f"let left_k = thread % {steps}u * {HALVES}u;\nlet left_line = thread / {steps}u;\n"]
    store = ""
    for i in range(count):
        texts += [f"let left_line{i} = left_line + {i * down}u;\nvar left_{i}: vec4<u32>;\n", setup(i)]
        store += f"{{\nlet to = {slice_at(tile, 'left')}left_line{i} * {tile.left_row}u + left_k;\n"
        store += _halves("left", f"left_{i}") + "}\n"
    return TileOperand("".join(texts), "".join(fetch(i) for i in range(count)), store, advance)


def _halves(array: str, vector: str) -> str:
    text = ""
    for half, part in enumerate(("xy", "zw")):
        text += f"let half{half} = bitcast<vec4<f16>>({vector}.{part});\n"
        text += "".join(f"{array}[to + {4 * half + z}u] = half{half}.{c};\n" for z, c in enumerate("xyzw"))
    return text


_TAPS = """
var left_c = (begin + left_k) % p.channels;
var left_tap = vec2<u32>((begin + left_k) / p.channels, 0u);
left_tap = vec2<u32>(left_tap.x / p.kernel_width, left_tap.x % p.kernel_width);
"""

_TAP_LINE = """
let left_corner$i = corner(min(first_row + left_line$i, p.rows - 1u));
var left_at$i = pixel_at(left_corner$i, left_tap);
"""

_TAP_FETCH = """
left_$i = vec4<u32>();
if (left_at$i >= 0) { left_$i = x[(u32(left_at$i) * p.channels + left_c) / 8u]; }
"""

_TAP_ADVANCE = """
left_c += ${depth}u;
if (left_c >= p.channels) {
    left_tap.y += left_c / p.channels;
    left_c = left_c % p.channels;
    if (left_tap.y >= p.kernel_width) {
        left_tap = vec2<u32>(left_tap.x + left_tap.y / p.kernel_width, left_tap.y % p.kernel_width);
    }
    $place
}
"""


def wide_image(op: Conv2D, tile: MatrixTile) -> TileOperand:
    """Return the left operand of a convolution; `x` is bound as vectors of eight halves."""
    if is_pointwise(op):
        at = "(min(first_row + left_line{i}, p.rows - 1u) * p.channels + left_k) / 8u"
        return wide_rows(tile, at, "x", op.channels % tile.depth == 0)
    count = tile.rows * tile.depth // HALVES // tile.threads
    place = "\n".join(f"left_at{i} = pixel_at(left_corner{i}, left_tap);" for i in range(count))
    return wide_lines(
        tile,
        lambda i: (_TAPS if i == 0 else "") + fill(_TAP_LINE, i=i),
        lambda i: fill(_TAP_FETCH, i=i),
        fill(_TAP_ADVANCE, depth=tile.depth, place=place),
    ) | corner_functions(op)


def wide_rows(tile: MatrixTile, at: str, name: str, whole: bool) -> TileOperand:
    """Return a left operand whose rows begin at `at` in the binding `name`, in vectors of eight."""

    def fetch(i: int) -> str:
        read = f"left_{i} = {name}[left_at{i} + k / 8u];\n"
        return read if whole else f"left_{i} = vec4<u32>();\nif (k + left_k < p.depth) {{ {read} }}\n"

    return wide_lines(tile, lambda i: f"let left_at{i} = {at.format(i=i)};\n", fetch)


def wide_words(tile: MatrixTile, filter_: Filter) -> int:
    """Return the words of weights that a thread reads at once, 0 where it cannot."""
    each = 4 if filter_.stored == "int8" else 2
    if filter_.stored not in ("int8", "f16"):
        return 0
    words = min(4, tile.columns * tile.depth // tile.threads // each)
    return words if words in (1, 2, 4)[each == 2 :] and filter_.columns % (words * each) == 0 else 0


def wide_filter(tile: MatrixTile, filter_: Filter, base: str = "0u") -> TileOperand:
    """Return the right operand that is a filter; `weights` is bound as vectors of `wide_words` words."""
    words, each = wide_words(tile, filter_), 4 if filter_.stored == "int8" else 2
    kind = "u32" if words == 1 else f"vec{words}<u32>" if each == 4 or words == 4 else "vec4<f16>"
    wide = words * each
    across = tile.columns // wide
    count = tile.columns * tile.depth // wide // tile.threads
    whole = filter_.rows % tile.depth == 0
    setup = fetch = store = ""
    row_words = f"(p.columns4 * 4u / {wide}u)"
    for q in range(count):
        name = f"right{q}"
        setup += f"let {name} = thread + {q * tile.threads}u;\nlet {name}_k = {name} / {across}u;\n"
        setup += f"let {name}_column = {name} % {across}u;\nvar {name}_0: {kind};\n"
        setup += f"let {name}_at = min(first_column * 4u / {wide}u + {name}_column, {row_words} - 1u);\n"
        at = f"{base} + (k + {name}_k) * {row_words} + {name}_at"
        read = f"{name}_0 = weights[{at}];\n"
        fetch += read if whole else f"{name}_0 = {kind}();\nif (k + {name}_k < p.depth) {{ {read} }}\n"
        store += (
            f"{{\nlet to = {slice_at(tile, 'right')}{name}_k * {tile.right_row}u + {name}_column * {wide}u;\n"
        )
        if each == 4:
            for word in range(words):
                part = f"{name}_0" if words == 1 else f"{name}_0.{'xyzw'[word]}"
                store += f"let wide{word} = widen_tiled({part});\n"
                store += "".join(
                    f"right[to + {4 * word + z}u] = wide{word}.{c};\n" for z, c in enumerate("xyzw")
                )
        elif words == 4:
            store += _halves("right", f"{name}_0")
        else:
            store += "".join(f"right[to + {z}u] = {name}_0.{c};\n" for z, c in enumerate("xyzw"))
        store += "}\n"
    return TileOperand(setup, fetch, store)

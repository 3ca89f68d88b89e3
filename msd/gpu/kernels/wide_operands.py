"""Operands of matrix tiles that threads read in wide vectors, as they lie: eight halves, up to 32 weights."""

from __future__ import annotations

from collections.abc import Callable

from msd.gpu.kernels.images import corner_functions, is_pointwise
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tile import AnyTile, TileOperand
from msd.gpu.operations import Conv2D, Filter, Stored
from msd.gpu.wgsl import fill

HALVES = 8
"""The halves of a vector of four words, which is the width of such a binding (`msd.gpu.wgsl`)."""

WORDS: dict[Stored, tuple[int, tuple[int, ...]]] = {
    "int8": (4, (4, 2, 1)),
    "int4": (8, (4, 2, 1)),
    "f16": (2, (4,)),
}
"""The weights of a word, and how many words a thread may read at once, the most first."""


def wide_image(op: Conv2D, tile: AnyTile) -> TileOperand | None:
    """Return the left operand of a convolution, None where its pixels cannot be read so.

    The binding `x` then has vectors of `HALVES`, so that nothing else of the shader may read the same value.
    """
    also = (op.epilogue.residual, op.epilogue.vector)
    if not fits_wide(tile, op.x.element, op.channels) or op.x in also:
        return None
    assert isinstance(tile, MatrixTile), "no other tile has wide operands"
    if is_pointwise(op):
        return wide_rows(tile, "x", "first_row + left_line{i}", "p.channels", op.channels)
    place = "\n".join(f"left_at{i} = pixel_at(left_corner{i}, left_tap);" for i in range(_count(tile)))
    return _lines(
        tile,
        lambda i: (_TAPS if i == 0 else "") + fill(_TAP_LINE, i=i),
        lambda i: fill(_TAP_FETCH, i=i),
        fill(_TAP_ADVANCE, depth=tile.depth, place=place),
    ) | corner_functions(op)


def fits_wide(tile: AnyTile, element: str, depth: int) -> bool:
    """Return whether rows of `depth` such elements are read in wide vectors, as many by each thread."""
    if not isinstance(tile, MatrixTile) or element != "f16" or depth % HALVES:
        return False
    return tile.rows * tile.depth % (HALVES * tile.threads) == tile.threads % (tile.depth // HALVES) == 0


def wide_rows(
    tile: MatrixTile, name: str, row: str, pitch: str, depth: int, first: str = "0u"
) -> TileOperand:
    """Return a left operand of rows of `depth` elements, `pitch` from one to the next, in a binding.

    `row` is the expression of a row, with {i}; rows from p.rows on are the last. `first` comes before all.
    """
    whole = depth % tile.depth == 0

    def setup(i: int) -> str:
        at = f"min({row.format(i=i)}, p.rows - 1u)"
        return f"let left_at{i} = (({first} + {at}) * {pitch} + left_k) / {HALVES}u;\n"

    def fetch(i: int) -> str:
        read = f"left_{i} = {name}[left_at{i} + k / {HALVES}u];\n"
        return read if whole else f"left_{i} = vec4<u32>();\nif (k + left_k < p.depth) {{ {read} }}\n"

    return _lines(tile, setup, fetch)


def _count(tile: MatrixTile) -> int:
    """Return the vectors of a slice of the left operand that each thread brings."""
    return tile.rows * tile.depth // HALVES // tile.threads


def _lines(
    tile: MatrixTile, setup: Callable[[int], str], fetch: Callable[[int], str], advance: str = ""
) -> TileOperand:
    """Return a left operand of which a thread reads vectors `left_{i}` of eight along K.

    `left_k` is the place of all of them in the slice, `left_line{i}` the row of one.
    """
    steps = tile.depth // HALVES
    texts = [f"let left_k = thread % {steps}u * {HALVES}u;\nlet left_line = thread / {steps}u;\n"]
    store = ""
    for i in range(_count(tile)):
        line = f"let left_line{i} = left_line + {i * tile.threads // steps}u;\n"
        texts += [line, f"var left_{i}: vec4<u32>;\n", setup(i)]
        store += f"{{\nlet to = left_line{i} * {tile.left_row}u + left_k;\n"
        store += _halves("left", f"left_{i}") + "}\n"
    return TileOperand("".join(texts), "".join(map(fetch, range(_count(tile)))), store, advance)


def _halves(array: str, vector: str) -> str:
    """Return the WGSL that stores the eight halves of a vector of four words one after another."""
    text = ""
    for half, part in enumerate(("xy", "zw")):
        text += f"let half{half} = bitcast<vec4<f16>>({vector}.{part});\n"
        text += _four(array, 4 * half, f"half{half}")
    return text


def _four(array: str, at: int, vector: str) -> str:
    return "".join(f"{array}[to + {at + z}u] = {vector}.{part};\n" for z, part in enumerate("xyzw"))


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


def wide_words(tile: AnyTile, filter_: Filter) -> int:
    """Return the words of weights that a thread reads at once, 0 where they are read one vector at a time.

    That is the width of the binding `weights` for integers, and twice as many halves for f16.
    """
    if not isinstance(tile, MatrixTile) or filter_.stored not in WORDS:
        return 0
    each, known = WORDS[filter_.stored]
    share = tile.columns * tile.depth // tile.threads
    fitting = (
        words
        for words in known
        if words * each <= share and tile.columns % (words * each) == filter_.columns % (words * each) == 0
    )
    return next(fitting, 0) if filter_.values.element != "f32" else 0


def wide_filter(tile: MatrixTile, filter_: Filter, base: str = "0u") -> TileOperand:
    """Return the right operand that is a filter, from its row `base` on, where `wide_words` are not 0.

    int8 needs `widening.tile_widening`. Parameters: `depth` and `columns4`.
    """
    words = wide_words(tile, filter_)
    wide = words * WORDS[filter_.stored][0]
    kind = "u32" if words == 1 else f"vec{words}<u32>"
    across = tile.columns // wide
    whole = filter_.rows % tile.depth == 0
    row = f"(p.columns4 * 4u / {wide}u)"
    setup = fetch = store = ""
    for q in range(tile.columns * tile.depth // wide // tile.threads):
        name = f"right{q}"
        setup += f"let {name} = thread + {q * tile.threads}u;\nlet {name}_k = {name} / {across}u;\n"
        setup += f"let {name}_column = {name} % {across}u;\nvar {name}_0: {kind};\n"
        setup += f"let {name}_at = min(first_column * 4u / {wide}u + {name}_column, {row} - 1u);\n"
        read = f"{name}_0 = weights[({base} + k + {name}_k) * {row} + {name}_at];\n"
        fetch += read if whole else f"{name}_0 = {kind}();\nif (k + {name}_k < p.depth) {{ {read} }}\n"
        store += f"{{\nlet to = {name}_k * {tile.right_row}u + {name}_column * {wide}u;\n"
        store += _stored(filter_.stored, words, f"{name}_0")
        store += "}\n"
    return TileOperand(setup, fetch, store)


def _stored(stored: Stored, words: int, read: str) -> str:
    """Return the WGSL that stores the weights of the words that were `read`."""
    if stored == "f16":
        return _halves("right", read)
    store = _eight_int4 if stored == "int4" else _four_int8
    parts = [read] if words == 1 else [f"{read}.{axis}" for axis in "xyzw"[:words]]
    return "".join(store(word, part) for word, part in enumerate(parts))


def _four_int8(word: int, part: str) -> str:
    return f"let wide{word} = widen_tiled({part});\n" + _four("right", 4 * word, f"wide{word}")


def _eight_int4(word: int, part: str) -> str:
    """1024 + n has the bits of 1024 with n in the last four, as f16; taking 1024 + 8 off again is exact.

    Halves are stored in the order of their places: a driver that joins such stores does so with neighbours.
    """
    text = f"let u{word} = {part} ^ 0x88888888u;\n"
    for n in range(4):
        bits = f"((u{word} >> {4 * n}u) & 0x000f000fu) | 0x64006400u"
        text += f"let pair{word}_{n} = bitcast<vec2<f16>>({bits}) - vec2<f16>(1032.0h);\n"
    for at in range(8):
        text += f"right[to + {8 * word + at}u] = pair{word}_{at % 4}.{'xy'[at // 4]};\n"
    return text

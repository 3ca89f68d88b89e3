"""How operands come into a tile's workgroup memory: transposed in blocks of 4 x 4, or as they lie."""

from __future__ import annotations

from collections.abc import Callable

from msd.gpu.gpu import Element
from msd.gpu.kernels.matrix_tile import MatrixTile, store_lines, store_vector
from msd.gpu.kernels.tile import AnyTile, TileOperand, swizzle
from msd.gpu.kernels.widening import raw_type, widen_name
from msd.gpu.operations import Filter


def block_operand(
    tile: AnyTile,
    array: str,
    element: Element,
    setup: Callable[[str], str],
    fetch: Callable[[str], str],
    advance: Callable[[str], str] = lambda name: "",
    widen: Callable[[str, int], str] | None = None,
) -> TileOperand:
    """Return an operand whose lines (rows of the left one, columns of the right one) lie along K in memory.

    A thread reads four elements along K of each of four lines, transposes them, and writes four vectors along
    the lines. For block `name`, `setup(name)` may use `{name}_line`, the first line within the tile, and
    `{name}_k`, the first k within the slice; `fetch(name)` assigns line i's vector to `{name}_{i}`, i from
    0 to 3, and `widen(name, i)` is that vector as T4, of the tile's `stored`.
    """
    extent = tile.rows if array == "left" else tile.columns
    steps = tile.depth // 4
    blocks = extent // 4 * steps
    setup_text = fetch_text = store_text = advance_text = ""
    for q in range(-(-blocks // tile.threads)):
        name = f"{array}{q}"
        whole = (q + 1) * tile.threads <= blocks
        setup_text += (
            f"let {name} = thread + {q * tile.threads}u;\n"
            f"let {name}_k = {name} % {steps}u * 4u;\n"
            f"let {name}_line = {name} / {steps}u * 4u;\n"
            + "".join(f"var {name}_{i}: vec4<{element}>;\n" for i in range(4))
            + setup(name)
        )
        fetch_text += _where(whole, f"{name} < {blocks}u", fetch(name))
        store_text += _where(
            whole, f"{name} < {blocks}u", _transposed(tile, array, name, extent, widen or plain)
        )
        advance_text += advance(name)
    return TileOperand(setup_text, fetch_text, store_text, advance_text, swizzled=True)


def plain(name: str, line: int) -> str:
    """Return a line's vector as workgroup memory has it."""
    return f"T4({name}_{line})"


def vector_operand(
    tile: AnyTile,
    element: str,
    setup: Callable[[str], str],
    fetch: Callable[[str], str],
    widen: Callable[[str], str],
    pairs: bool = False,
) -> TileOperand:
    """Return a right operand of which vectors of four columns lie together in memory.

    For vector `name`, `setup(name)` may use `{name}_k`, its row within the slice, and `{name}_column`, the
    number of its vector within the tile; `fetch(name)` assigns to `{name}_0`, of type `element`, and
    `widen(name)` is that as T4. With `pairs`, neighbouring vectors lie where one thread finds both.
    """
    columns4 = tile.columns // 4
    vectors = columns4 * tile.depth
    setup_text = fetch_text = store_text = ""
    for q in range(-(-vectors // tile.threads)):
        name = f"right{q}"
        whole = (q + 1) * tile.threads <= vectors
        setup_text += (
            f"let {name} = thread + {q * tile.threads}u;\n"
            f"let {name}_k = {name} / {columns4}u;\n"
            f"let {name}_column = {name} % {columns4}u;\n"
            f"var {name}_0: {element};\n" + setup(name)
        )
        fetch_text += _where(whole, f"{name} < {vectors}u", fetch(name))
        store = _stored(tile, name, widen(name), pairs)
        store_text += _where(whole, f"{name} < {vectors}u", store)
    return TileOperand(setup_text, fetch_text, store_text)


def _stored(tile: AnyTile, name: str, value: str, pairs: bool) -> str:
    if isinstance(tile, MatrixTile):
        return store_vector(tile, name, value)
    place = f"{name}_column / 2u + {name}_column % 2u * {tile.lanes}u" if pairs else f"{name}_column"
    return f"right[{name}_k * {tile.columns // 4}u + {place}] = {value};\n"


def filter_operand(tile: AnyTile, filter_: Filter, pairs: bool = False, base: str = "0u") -> TileOperand:
    """Return the right operand that is a filter, read from its word `base` on.

    Parameters: `depth`, `columns4` and `filter_words`, the words of a row. Needs `widening.tile_widening`.
    """
    whole = filter_.rows % tile.depth == 0

    def setup(name: str) -> str:
        return f"let {name}_at = min(first_column + {name}_column, p.columns4 - 1u);\n"

    def fetch(name: str) -> str:
        read = f"{name}_0 = raw_weights({base}, k + {name}_k, {name}_at);\n"
        if whole:
            return read
        return f"{name}_0 = {raw_type(filter_)}();\nif (k + {name}_k < p.depth) {{ {read} }}\n"

    widen = widen_name(tile)
    return vector_operand(tile, raw_type(filter_), setup, fetch, lambda name: f"{widen}({name}_0)", pairs)


def _where(always: bool, condition: str, text: str) -> str:
    return text if always else f"if ({condition}) {{\n{text}}}\n"


def _transposed(tile: AnyTile, array: str, name: str, extent: int, widen: Callable[[str, int], str]) -> str:
    lines = [f"let wide{i} = {widen(name, i)};" for i in range(4)]
    if isinstance(tile, MatrixTile):
        return "{\n" + "\n".join([*lines, store_lines(tile, array, name)]) + "\n}\n"
    lines.append(
        f"let to = {name}_k * {extent // 4}u + (({name}_line / 4u) ^ ({name}_k / 4u * {swizzle(tile)}u));"
    )
    for z, part in enumerate("xyzw"):
        parts = ", ".join(f"wide{i}.{part}" for i in range(4))
        lines.append(f"{array}[to + {z * (extent // 4)}u] = T4({parts});")
    return "{\n" + "\n".join(lines) + "\n}\n"

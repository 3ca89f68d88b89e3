"""The tiled matrix product that all large products share.

A workgroup computes a tile of the result. It walks along K in steps: each step brings a slice of both
operands into workgroup memory, and each thread multiplies the rows and columns of its block of the tile
there. The next slice is read into registers while the threads multiply. Each sum has a name of its own: in an
array that a loop variable indexes they would go to memory.

Sums are f32. With short sums, a few products along K are summed in f16, which GPUs add and multiply twice as
fast, and join the f32 sum then. An f16 sum of n products of a and b stays below |a| if |b| <= 1/n, so that
operands which `shrink` bounds so cannot overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from msd.gpu.gpu import BYTES, Element
from msd.gpu.kernels.matrix_tile import (
    MatrixTile,
    matrix_lanes,
    matrix_memory,
    matrix_multiply,
    matrix_sums,
    matrix_zeros,
)
from msd.gpu.kernels.paired_sums import add_pairs, multiply_pairs, pair_functions, zero_pairs
from msd.gpu.wgsl import fill


@dataclass(frozen=True)
class Tile:
    """`rows` x `columns` of a result, of which each thread has a block; `depth` is the step along K.

    Operands are in workgroup memory as `stored`. With `short`, a part of `depth`, that many products are
    summed as `stored` before they join the f32 sum. `unroll`, a multiple of four, steps along K are written
    out. `paired`: short sums are of pairs of rows and columns, as `paired_sums` has them.
    """

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    depth: int = 16
    short: int = 0
    stored: Element = "f32"
    unroll: int = 4
    paired: bool = False

    @property
    def lanes(self) -> int:
        """The threads side by side."""
        return self.columns // self.thread_columns

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.rows // self.thread_rows * self.lanes

    @property
    def bytes(self) -> int:
        """The workgroup memory of a step's operands."""
        return (self.rows + self.columns) * self.depth * BYTES[self.stored]

    def __str__(self) -> str:
        short = f", short {self.short}" if self.short else ""
        short += " in pairs" if self.paired else ""
        kind = f" {self.stored}" if self.stored != "f32" and not self.short else ""
        unroll = f", unroll {self.unroll}" if self.unroll != 4 else ""
        size = f"{self.rows}x{self.columns}x{self.depth} by {self.thread_rows}x{self.thread_columns}"
        return size + kind + short + unroll


@dataclass(frozen=True)
class TileOperand:
    """WGSL that brings an operand into workgroup memory.

    `setup` comes before the loop, `fetch` reads the slice at `k` into registers, `store` writes the
    registers to workgroup memory, and `advance` follows `k` to the next slice. `swizzled`: the blocks of
    four rows (or columns) of the slices lie permuted, as `block_operand` says. `early`: the next slice is
    fetched before the threads multiply; a long fetch is not, as its text would stand twice in the shader.
    """

    setup: str
    fetch: str
    store: str
    advance: str = ""
    functions: str = ""
    swizzled: bool = False
    early: bool = True

    def __or__(self, functions: str) -> TileOperand:
        """Return the operand with the declarations that it needs."""
        return replace(self, functions=self.functions + functions)


_MAIN = """
alias T4 = vec4<$stored>;
$memory
$functions
@compute @workgroup_size($threads)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32$builtins) {
    let number = group.x + group.y * groups.x;
    if (number >= p.tiles) { return; }
    let first_row = number / p.tile_columns * ${rows}u;
    let first_column = number % p.tile_columns * ${columns4}u;
    $lanes
    $range
    $setup
    $sums
    var k = begin;
    $first
    while (k < end) {
        $late
        workgroupBarrier();
        $store
        workgroupBarrier();
        k += ${depth}u;
        if (k < end) {
            $advance
        }
        $multiply
    }
    $finish
}
"""


AnyTile = Tile | MatrixTile
"""A tile of which threads, or subgroups with the GPU's matrix units, have blocks."""


def tiled(
    tile: AnyTile, left: TileOperand, right: TileOperand, range_: str, finish: str, functions: str = ""
) -> str:
    """Return the WGSL of a tiled product, header aside.

    `range_` declares `begin` and `end` along K, multiples of the tile's depth but for a last end; `finish`
    uses the sums, see `each_sum`. The parameters `tiles` and `tile_columns` count workgroups.
    """
    fetch, early = left.fetch + right.fetch, left.early and right.early
    if isinstance(tile, MatrixTile):
        parts = (matrix_memory(tile), matrix_lanes(tile), matrix_zeros(tile), matrix_multiply(tile))
    else:
        multiply = _multiply(tile, left.swizzled, right.swizzled)
        parts = (_memory(tile), _lanes(tile), _zeros(tile), multiply)
    memory, lanes, sums, multiply = parts
    return fill(
        _MAIN,
        stored=tile.stored,
        memory=memory,
        builtins=", @builtin(subgroup_id) subgroup: u32" if isinstance(tile, MatrixTile) else "",
        functions=left.functions + right.functions + functions,
        threads=tile.threads,
        rows=tile.rows,
        columns4=tile.columns // 4,
        lanes=lanes,
        depth=tile.depth,
        range=range_,
        setup=left.setup + right.setup,
        sums=sums,
        first=fetch if early else "",
        late="" if early else fetch,
        store=left.store + right.store,
        advance=left.advance + right.advance + (fetch if early else ""),
        multiply=multiply,
        finish=finish,
    )


def _memory(tile: Tile) -> str:
    sizes = {"left": tile.rows // 4 * tile.depth, "right": tile.columns // 4 * tile.depth}
    arrays = "".join(f"var<workgroup> {name}: array<T4, {size}>;\n" for name, size in sizes.items())
    return arrays + (pair_functions(tile.stored) if tile.paired else "")


def _lanes(tile: Tile) -> str:
    return f"let lane_row = thread / {tile.lanes}u;\nlet lane = thread % {tile.lanes}u;\n"


def _zeros(tile: Tile) -> str:
    return "\n".join(f"var s{i}_{j} = vec4<f32>(0.0);" for i, j in _places(tile))


def _places(tile: Tile) -> list[tuple[int, int]]:
    """Return the rows and columns' vectors of a thread's sums."""
    return [(i, j) for i in range(tile.thread_rows) for j in range(tile.thread_columns // 4)]


def each_sum(tile: AnyTile, pairs: bool, use: Callable[[str, str, list[str]], str]) -> str:
    """Return the WGSL that `use` gives for each row and each of its columns' vectors of four.

    `use(row, column, sums)` takes expressions: the row, the number of a vector of columns, and the sums
    there; with `pairs`, two vectors of neighbouring columns come together, and `column` is half the first's
    number.
    """
    if isinstance(tile, MatrixTile):
        return matrix_sums(tile, pairs, use)
    vectors = tile.thread_columns // 4
    lines = []
    for i in range(tile.thread_rows):
        row = f"first_row + lane_row * {tile.thread_rows}u + {i}u"
        if pairs:
            lines.append(use(row, "first_column / 2u + lane", [f"s{i}_0", f"s{i}_1"]))
            continue
        for j in range(vectors):
            lines.append(use(row, f"first_column + lane + {j * tile.lanes}u", [f"s{i}_{j}"]))
    return "\n".join(lines)


def _multiply(tile: Tile, swizzled_left: bool, swizzled_right: bool) -> str:
    """Return the product of a step's slices.

    Columns' vectors lie as many apart as there are threads side by side, so that neighbouring threads read
    neighbouring vectors.
    """
    inner = tile.short or tile.depth
    if inner == tile.depth:
        return _chunk(tile, inner, "0u", swizzled_left, swizzled_right)
    body = _chunk(tile, inner, f"chunk * {inner // 4}u", swizzled_left, swizzled_right)
    return f"for (var chunk = 0u; chunk < {tile.depth // inner}u; chunk++) {{\n{body}\n}}"


def _chunk(tile: Tile, length: int, first: str, swizzled_left: bool, swizzled_right: bool) -> str:
    """Return the product of `length` steps along K, which begin at four number `first`."""
    lines = [*_zero_short(tile)]
    unroll = min(tile.unroll, length) // 4
    lines.append(f"for (var turn = 0u; turn < {length // 4 // unroll}u; turn++) {{")
    for number in range(unroll):
        at = f"{first} + turn * {unroll}u + {number}u"
        lines += ["{", f"let four = {at};", *_four_steps(tile, swizzled_left, swizzled_right), "}"]
    lines.append("}")
    lines += _add_short(tile)
    return "{\n" + "\n".join(lines) + "\n}"


def _zero_short(tile: Tile) -> Iterable[str]:
    if tile.paired:
        return zero_pairs(tile.thread_rows, tile.thread_columns // 4)
    return (f"var h{i}_{j} = T4();" for i, j in _places(tile) if tile.short)


def _add_short(tile: Tile) -> Iterable[str]:
    if tile.paired:
        return add_pairs(tile.thread_rows, tile.thread_columns // 4)
    return (f"s{i}_{j} += vec4<f32>(h{i}_{j});" for i, j in _places(tile) if tile.short)


def _four_steps(tile: Tile, swizzled_left: bool, swizzled_right: bool) -> list[str]:
    rows4, columns4 = tile.rows // 4, tile.columns // 4
    blocks, vectors = tile.thread_rows // 4, tile.thread_columns // 4
    kind, name = ("T4", "h") if tile.short else ("vec4<f32>", "s")
    lines = [f"let swizzle = four * {swizzle(tile)}u;"]
    for i in range(blocks):
        at = f"lane_row * {blocks}u + {i}u"
        lines.append(f"let a{i} = four * {4 * rows4}u + {_swizzled(at, swizzled_left)};")
    for j in range(vectors):
        at = f"lane + {j * tile.lanes}u"
        lines.append(f"let b{j} = four * {4 * columns4}u + {_swizzled(at, swizzled_right)};")
    for z in range(4):
        lines.append("{")
        lines += [f"let x{i} = {kind}(left[a{i} + {z * rows4}u]);" for i in range(blocks)]
        lines += [f"let w{j} = {kind}(right[b{j} + {z * columns4}u]);" for j in range(vectors)]
        if tile.paired:
            lines += multiply_pairs([f"x{i}" for i in range(blocks)], [f"w{j}" for j in range(vectors)])
        else:
            lines += _products(tile, kind, name)
        lines.append("}")
    return lines


def _products(tile: Tile, kind: str, name: str) -> Iterator[str]:
    for i in range(tile.thread_rows):
        of = f"{kind}(x{i // 4}.{'xyzw'[i % 4]})"
        for j in range(tile.thread_columns // 4):
            yield f"{name}{i}_{j} = fma({of}, w{j}, {name}{i}_{j});"


def _swizzled(at: str, swizzled: bool) -> str:
    return f"(({at}) ^ swizzle)" if swizzled else at


def swizzle(tile: Tile) -> int:
    """Return the factor s of a block operand's permutation: block b of four rows lies at b ^ (s*(k/4)).

    Eight neighbouring threads then write to the eight different vectors that the memory's 32 banks take at
    once.
    """
    return max(1, 32 // tile.depth)


def shrink(bits: int, tile: AnyTile) -> float:
    """Return the factor by which integers of `bits` are at most 1/`tile.short`; 1 without short sums."""
    return 2.0 ** (1 - bits) / tile.short if tile.short else 1.0

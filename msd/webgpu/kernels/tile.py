"""The tiled matrix product that all large products share.

A workgroup computes a tile of the result. It walks along K in steps: each step brings a slice of both
operands into workgroup memory as f32, and each thread multiplies the rows and columns of its block of the
tile there. The next slice is read into registers while the threads multiply. Each sum has a name of its own:
in an array that a loop variable indexes they would go to memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from msd.webgpu.wgsl import fill


@dataclass(frozen=True)
class Tile:
    """`rows` x `columns` of a result, of which each thread has a block; `depth` is the step along K."""

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    depth: int = 16

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
        return (self.rows + self.columns) * self.depth * 4

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth} by {self.thread_rows}x{self.thread_columns}"


@dataclass(frozen=True)
class Operand:
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

    def __or__(self, functions: str) -> Operand:
        """Return the operand with the declarations that it needs."""
        return replace(self, functions=self.functions + functions)


_MAIN = """
var<workgroup> left: array<vec4<f32>, $left>;
var<workgroup> right: array<vec4<f32>, $right>;
$functions
@compute @workgroup_size($threads)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let number = group.x + group.y * groups.x;
    if (number >= p.tiles) { return; }
    let first_row = number / p.tile_columns * ${rows}u;
    let first_column = number % p.tile_columns * ${columns4}u;
    let lane_row = thread / ${lanes}u;
    let lane = thread % ${lanes}u;
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


def tiled(tile: Tile, left: Operand, right: Operand, range_: str, finish: str, functions: str = "") -> str:
    """Return the WGSL of a tiled product, header aside.

    `range_` declares `begin` and `end` along K, multiples of the tile's depth but for a last end; `finish`
    uses the sums, see `each_sum`. The parameters `tiles` and `tile_columns` count workgroups.
    """
    fetch, early = left.fetch + right.fetch, left.early and right.early
    return fill(
        _MAIN,
        left=tile.rows // 4 * tile.depth,
        right=tile.columns // 4 * tile.depth,
        functions=left.functions + right.functions + functions,
        threads=tile.threads,
        rows=tile.rows,
        columns4=tile.columns // 4,
        lanes=tile.lanes,
        depth=tile.depth,
        range=range_,
        setup=left.setup + right.setup,
        sums="\n".join(
            f"var s{i}_{j} = vec4<f32>(0.0);"
            for i in range(tile.thread_rows)
            for j in range(tile.thread_columns // 4)
        ),
        first=fetch if early else "",
        late="" if early else fetch,
        store=left.store + right.store,
        advance=left.advance + right.advance + (fetch if early else ""),
        multiply=_multiply(tile, left.swizzled, right.swizzled),
        finish=finish,
    )


def each_sum(tile: Tile, pairs: bool, use: Callable[[str, str, list[str]], str]) -> str:
    """Return the WGSL that `use` gives for each row and each of its columns' vectors of four.

    `use(row, column, sums)` takes expressions: the row, the number of a vector of columns, and the sums
    there; with `pairs`, two vectors of neighbouring columns come together, and `column` is half the first's
    number.
    """
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
    """Return the product of a step's slices; four steps along K are unrolled.

    Columns' vectors lie as many apart as there are threads side by side, so that neighbouring threads read
    neighbouring vectors.
    """
    rows4, columns4 = tile.rows // 4, tile.columns // 4
    blocks, vectors = tile.thread_rows // 4, tile.thread_columns // 4
    lines = [f"for (var four = 0u; four < {tile.depth // 4}u; four++) {{"]
    lines.append(f"let swizzle = four * {swizzle(tile)}u;")
    for i in range(blocks):
        at = f"lane_row * {blocks}u + {i}u"
        lines.append(f"let a{i} = four * {4 * rows4}u + {_swizzled(at, swizzled_left)};")
    for j in range(vectors):
        at = f"lane + {j * tile.lanes}u"
        lines.append(f"let b{j} = four * {4 * columns4}u + {_swizzled(at, swizzled_right)};")
    for z in range(4):
        lines.append("{")
        lines += [f"let x{i} = left[a{i} + {z * rows4}u];" for i in range(blocks)]
        lines += [f"let w{j} = right[b{j} + {z * columns4}u];" for j in range(vectors)]
        for i in range(tile.thread_rows):
            of = f"vec4<f32>(x{i // 4}.{'xyzw'[i % 4]})"
            lines += [f"s{i}_{j} = fma({of}, w{j}, s{i}_{j});" for j in range(vectors)]
        lines.append("}")
    return "\n".join([*lines, "}"])


def _swizzled(at: str, swizzled: bool) -> str:
    return f"(({at}) ^ swizzle)" if swizzled else at


def swizzle(tile: Tile) -> int:
    """Return the factor s of a block operand's permutation: block b of four rows lies at b ^ (s*(k/4)).

    Eight neighbouring threads then write to the eight different vectors that the memory's 32 banks take at
    once.
    """
    return 32 // tile.depth

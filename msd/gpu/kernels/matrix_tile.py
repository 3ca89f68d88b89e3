"""Tiles whose products a GPU's matrix units compute: WGSL's subgroup matrices, an experiment of Dawn.

A subgroup has a block of the tile, whole matrices of the sizes that the adapter offers. Operands are f16,
sums f32. Sums leave their matrices through workgroup memory, a row of matrices at a time, and then meet the
same epilogues as those of threads.
https://dawn.googlesource.com/dawn/+/refs/heads/main/docs/dawn/features/experimental_subgroup_matrix.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msd.gpu.gpu import BYTES, Element, MatrixUnit

ENABLE = """enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);
"""

PAD = 8
"""The elements after each row of an operand or of sums, by which neighbouring rows lie in different banks."""


@dataclass(frozen=True)
class MatrixTile:
    """`rows` x `columns` of a result, of which a subgroup has a block; `depth` is the step along K."""

    rows: int
    columns: int
    block_rows: int
    block_columns: int
    unit: MatrixUnit
    depth: int = 32

    stored: Element = "f16"
    short: int = 0

    @property
    def subgroups(self) -> int:
        """The subgroups of a workgroup."""
        return self.rows // self.block_rows * (self.columns // self.block_columns)

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.subgroups * self.unit.subgroup

    @property
    def left_row(self) -> int:
        """The elements from one row of the left operand to the next."""
        return self.depth + PAD

    @property
    def right_row(self) -> int:
        """The elements from one row of the right operand to the next."""
        return self.columns + PAD

    @property
    def staged(self) -> int:
        """The sums that a subgroup brings to workgroup memory at once."""
        return self.unit.rows * self.stage_row

    @property
    def stage_row(self) -> int:
        """The elements from one row of these sums to the next."""
        return self.block_columns + PAD

    @property
    def bytes(self) -> int:
        """The workgroup memory of a step's operands and of the sums that leave."""
        operands = self.rows * self.left_row + self.depth * self.right_row
        return operands * BYTES[self.stored] + self.subgroups * self.staged * BYTES["f32"]

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """The places of a block's matrices."""
        unit = self.unit
        across = range(self.block_columns // unit.columns)
        return [(i, j) for i in range(self.block_rows // unit.rows) for j in across]

    def __str__(self) -> str:
        unit = self.unit
        block = f"{self.block_rows}x{self.block_columns}"
        return (
            f"{self.rows}x{self.columns}x{self.depth} by {block} of {unit.rows}x{unit.columns}x{unit.depth}"
        )


def matrix_memory(tile: MatrixTile) -> str:
    """Return the declarations of workgroup memory."""
    return (
        f"var<workgroup> left: array<f16, {tile.rows * tile.left_row}>;\n"
        f"var<workgroup> right: array<f16, {tile.depth * tile.right_row}>;\n"
        f"var<workgroup> stage: array<f32, {tile.subgroups * tile.staged}>;\n"
    )


def matrix_lanes(tile: MatrixTile) -> str:
    """Return the place of a thread: its subgroup's block, and its number in the subgroup."""
    across = tile.columns // tile.block_columns
    return (
        f"let lane = thread % {tile.unit.subgroup}u;\n"
        f"let block_row = subgroup / {across}u * {tile.block_rows}u;\n"
        f"let block_column = subgroup % {across}u * {tile.block_columns}u;\n"
        f"let staged = subgroup * {tile.staged}u;\n"
    )


def matrix_zeros(tile: MatrixTile) -> str:
    """Return the declarations of the sums."""
    kind = f"subgroup_matrix_result<f32, {tile.unit.columns}, {tile.unit.rows}>"
    return "\n".join(f"var s{i}_{j} = {kind}();" for i, j in tile.matrices)


def matrix_multiply(tile: MatrixTile) -> str:
    """Return the product of a step's slices."""
    unit = tile.unit
    rows, columns = ({place[axis] for place in tile.matrices} for axis in (0, 1))
    left = f"subgroup_matrix_left<f16, {unit.depth}, {unit.rows}>"
    right = f"subgroup_matrix_right<f16, {unit.columns}, {unit.depth}>"
    lines = []
    for k in range(0, tile.depth, unit.depth):
        lines.append("{")
        for i in sorted(rows):
            at = f"(block_row + {i * unit.rows}u) * {tile.left_row}u + {k}u"
            lines.append(f"let a{i} = subgroupMatrixLoad<{left}>(&left, {at}, false, {tile.left_row}u);")
        for j in sorted(columns):
            at = f"{k * tile.right_row}u + block_column + {j * unit.columns}u"
            lines.append(f"let b{j} = subgroupMatrixLoad<{right}>(&right, {at}, false, {tile.right_row}u);")
        lines += [
            f"s{i}_{j} = subgroupMatrixMultiplyAccumulate(a{i}, b{j}, s{i}_{j});" for i, j in tile.matrices
        ]
        lines.append("}")
    return "\n".join(lines)


def matrix_sums(tile: MatrixTile, pairs: bool, use: Callable[[str, str, list[str]], str]) -> str:
    """Return the WGSL that `use` gives for each row and vector of columns, as `tile.each_sum` has it."""
    unit, each = tile.unit, 2 if pairs else 1
    across = tile.block_columns // 4 // each
    at = f"staged + e / {across}u * {tile.stage_row}u + e % {across}u * {4 * each}u"
    column = f"first_column / {each}u + block_column / {4 * each}u + e % {across}u"
    sums = [f"sum{n}" for n in range(each)]
    lines = []
    for i in range(tile.block_rows // unit.rows):
        lines.append("workgroupBarrier();")
        for j in range(tile.block_columns // unit.columns):
            place = f"staged + {j * unit.columns}u"
            lines.append(f"subgroupMatrixStore(&stage, {place}, s{i}_{j}, false, {tile.stage_row}u);")
        lines += ["workgroupBarrier();", f"for (var e = lane; e < {unit.rows * across}u;"]
        lines += [f"        e += {unit.subgroup}u) {{", f"let at = {at};"]
        for n, name in enumerate(sums):
            parts = ", ".join(f"stage[at + {4 * n + z}u]" for z in range(4))
            lines.append(f"let {name} = vec4<f32>({parts});")
        row = f"first_row + block_row + {i * unit.rows}u + e / {across}u"
        lines += [use(row, column, sums), "}"]
    return "\n".join(lines)


def store_lines(tile: MatrixTile, array: str, name: str) -> str:
    """Return the WGSL that stores four lines of four elements along K, vectors `wide0` to `wide3`.

    Elements that are neighbours in memory come one after another, so that drivers join their stores.
    """
    lines = []
    for outer in range(4):
        for inner in range(4):
            i, z = (outer, inner) if array == "left" else (inner, outer)
            at = f"({name}_line + {i}u) * {tile.left_row}u + {name}_k + {z}u"
            if array == "right":
                at = f"({name}_k + {z}u) * {tile.right_row}u + {name}_line + {i}u"
            lines.append(f"{array}[{at}] = wide{i}.{'xyzw'[z]};")
    return "\n".join(lines)


def store_vector(tile: MatrixTile, name: str, value: str) -> str:
    """Return the WGSL that stores four columns of a row of the right operand."""
    lines = [f"let wide = {value};", f"let to = {name}_k * {tile.right_row}u + {name}_column * 4u;"]
    lines += [f"right[to + {z}u] = wide.{part};" for z, part in enumerate("xyzw")]
    return "{\n" + "\n".join(lines) + "\n}\n"

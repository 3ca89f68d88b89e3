"""Rows of a table by their numbers: token embeddings, and gathers along the first axis."""

from __future__ import annotations

from dataclasses import dataclass

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.rows import MAIN, has_half
from msd.gpu.operations import Stored
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import fill, groups_for, header


@dataclass(frozen=True)
class Table:
    """A matrix of `rows` x `columns`, stored as `operations.Filter` says; `scale` has each row's factor.

    `pitch` is the elements from one row to the next; None where rows are padded as a filter's are.
    """

    values: Value
    stored: Stored
    rows: int
    columns: int
    scale: Value | None = None
    pitch: int | None = None

    @property
    def stride(self) -> int:
        """The elements from one row to the next."""
        multiple = 8 if self.stored == "int4" else 4
        return self.pitch or -(-self.columns // multiple) * multiple


WORDS = {
    "int8": "f32(extractBits(bitcast<i32>(table[at / 4u]), 8u * (at % 4u), 8u))",
    "int4": "f32(extractBits(bitcast<i32>(table[at / 8u]), 4u * (at % 8u), 4u))",
    "f16": "unpack2x16float(table[at / 2u])[at % 2u]",
    "element": "f32(table[at])",
}
"""The element number `at` of a table."""

FOURS = {
    "int8": (
        "let w = bitcast<i32>(table[at / 4u]); "
        "return vec4<f32>(vec4<i32>(w << 24u, w << 16u, w << 8u, w) >> vec4<u32>(24u));"
    ),
    "int4": (
        "let w = bitcast<i32>(table[at / 8u] >> (4u * (at % 8u))); "
        "return vec4<f32>(vec4<i32>(w << 28u, w << 24u, w << 20u, w << 16u) >> vec4<u32>(28u));"
    ),
    "f16": "return vec4<f32>(unpack2x16float(table[at / 2u]), unpack2x16float(table[at / 2u + 1u]));",
    "element": "return vec4<f32>(table[at / 4u]);",
}
"""Four elements from the number `at`, which four divides."""

LOOK_UP = """
fn element(at: u32) -> $kind { $body }
"""

COPY = (
    MAIN
    + """
  let number = (group.x + group.y * groups.x) * 256u + t;
  if (number >= p.count * p.columns) { return; }
  let c = number % p.columns;
  // A number outside the table reads its first or last row.
  let row = u32(clamp(ids[number / p.columns], 0, i32(p.rows) - 1));
  y[number] = Y(element(row * p.stride + c * ${width}u)$scaled);
}
"""
)


def look_up(ids: Value, table: Table, y: Value, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return one dispatch that writes the rows `ids`, i32, of the table to y, one after another."""
    packed = table.values.element == "u32"
    form = table.stored if packed else "element"
    width = 4 if table.columns % 4 == 0 and table.stride % 4 == 0 else 1
    reads = {"ids": (ids, 1), "table": (table.values, 1 if packed else width)}
    if table.scale is not None:
        reads["scale"] = (table.scale, 1)
    used = tuple(value for value, _ in reads.values())
    fields = ["count: u32", "rows: u32", "columns: u32", "stride: u32"]
    code = header(reads, {"y": (y, width)}, fields, half=has_half((*used, y)))
    code += f"alias Y = {y.element if width == 1 else f'vec4<{y.element}>'};"
    body = FOURS[form] if width == 4 else f"return {WORDS[form]};"
    code += fill(LOOK_UP, kind="f32" if width == 1 else "vec4<f32>", body=body)
    code += fill(COPY, width=width, scaled=" * scale[row]" if table.scale is not None else "")
    count = ids.count * table.columns // width
    return [
        Dispatch(
            kernel=Kernel(f"look up {table.stored}", code),
            reads=used,
            writes=(y,),
            groups=groups_for(-(-count // 256), gpu.workgroups),
            params=(ids.count, table.rows, table.columns // width, table.stride),
            flops=ids.count * table.columns if table.scale is not None else 0,
            step=step,
        )
    ]


def gather(
    ids: Value, x: Value, rows: int, columns: int, y: Value, gpu: Gpu, step: str = ""
) -> list[Dispatch]:
    """Return one dispatch that writes the rows `ids`, i32, of x, `rows` x `columns` unpadded, to y."""
    table = Table(x, "f16" if x.element == "f16" else "f32", rows, columns, pitch=columns)
    return look_up(ids, table, y, gpu, step)

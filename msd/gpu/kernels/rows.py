"""Kernels that reduce rows: some invocations of a workgroup share a row and meet in workgroup memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msd.gpu.value import Value
from msd.gpu.wgsl import fill

INVOCATIONS = 256
OWNED = 4
"""The vectors that an invocation should own: more share a row where it is longer."""
REGISTERS = 8
"""The most vectors that an invocation keeps in registers; of longer rows it reads them again."""


@dataclass(frozen=True)
class Rows:
    """How a workgroup reads rows: `lanes` invocations share one, as vectors of `width` elements.

    Each owns every `lanes`-th vector: `owned` of them in registers, or 0 if there are too many for those.
    """

    width: int
    lanes: int
    owned: int

    @property
    def rows(self) -> int:
        """The rows of a workgroup."""
        return INVOCATIONS // self.lanes


def choose_rows(columns: int, aligned: bool = True) -> Rows:
    """Return how rows of `columns` elements are read: each invocation owns about four vectors of four.

    `aligned` says whether rows begin at multiples of four elements wherever `columns` is one.
    """
    width = 4 if columns % 4 == 0 and aligned else 1
    vectors = columns // width
    lanes = 8
    while lanes < INVOCATIONS and vectors > OWNED * lanes:
        lanes *= 2
    owned = -(-vectors // lanes)
    return Rows(width, lanes, owned if owned <= REGISTERS else 0)


def vector(width: int) -> str:
    """Return WGSL's name of `width` f32."""
    return "f32" if width == 1 else f"vec{width}<f32>"


def folded(operator: str, width: int, value: str) -> str:
    """Return the WGSL of a vector's elements joined by a function such as max, or by +."""
    parts = [f"{value}.{axis}" for axis in "xyzw"] if width == 4 else [value]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [f"({a} + {b})" if operator == "+" else f"{operator}({a}, {b})" for a, b in pairs]
    return parts[0]


def has_half(values: Iterable[Value]) -> bool:
    """Return whether a shader with these bindings needs shader-f16."""
    return any(value.element == "f16" for value in values)


MAIN = """
@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) t: u32,
) {
"""

ROW_START = (
    MAIN
    + """
  let lane = t % $lanes;
  let row = (group.x + group.y * groups.x) * $rows + t / $lanes;
  // Rows past the last are computed like it, so that all invocations meet at the barriers, but not written.
  let base = min(row, p.rows - 1u) * p.columns;
"""
)


def row_start(rows: Rows) -> str:
    """Return the beginning of `main`: `lane`, `row`, `base` (the row's first vector in x), and the loads."""
    start = fill(ROW_START, lanes=f"{rows.lanes}u", rows=f"{rows.rows}u")
    kind = vector(rows.width)
    for i in range(rows.owned):
        c = f"lane + {i * rows.lanes}u"
        start += f"  var v{i} = {kind}(0.0);\n  if ({c} < p.columns) {{ v{i} = {kind}(x[base + {c}]); }}\n"
    return start


def visit(rows: Rows, body: str) -> str:
    """Return WGSL that runs `body` for each vector that an invocation owns: `$v`, number `$c` of the row."""
    if rows.owned == 0:
        load = f"let v = {vector(rows.width)}(x[base + c]);"
        loop = f"for (var c = lane; c < p.columns; c += {rows.lanes}u)"
        return f"  {loop} {{ {load} {fill(body, v='v', c='c')} }}\n"
    return "".join(
        f"  if (lane + {i * rows.lanes}u < p.columns) {{ "
        f"{fill(body, v=f'v{i}', c=f'(lane + {i * rows.lanes}u)')} }}\n"
        for i in range(rows.owned)
    )


MEETING = """
var<workgroup> $name: array<$kind, 256>;

// The values of the $lanes invocations that share a row, joined pairwise.
fn meet_$name(own: $kind, t: u32) -> $kind {
  let lane = t % ${lanes}u;
  $name[t] = own;
  workgroupBarrier();
  for (var n = ${half}u; n > 0u; n >>= 1u) {
    if (lane < n) { let a = $name[t]; let b = $name[t + n]; $name[t] = $joined; }
    workgroupBarrier();
  }
  let met = $name[t - lane];
  workgroupBarrier();
  return met;
}
"""


def meeting(name: str, kind: str, joined: str, lanes: int) -> str:
    """Return the WGSL of `meet_NAME(own, t)`: what `joined`, of `a` and `b`, makes of the lanes' values."""
    return fill(MEETING, name=name, kind=kind, joined=joined, lanes=lanes, half=lanes // 2)

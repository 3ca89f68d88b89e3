"""Sums, means, maxima and minima over neighbouring axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.rows import (
    MAIN,
    Rows,
    choose_rows,
    folded,
    has_half,
    meeting,
    row_start,
    vector,
    visit,
)
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import fill, groups_for, header

Reduction = Literal["SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN"]

START = {"SUM": "0.0", "MEAN": "0.0", "REDUCE_MAX": "-3.4028234e38", "REDUCE_MIN": "3.4028234e38"}
JOIN = {"SUM": "+", "MEAN": "+", "REDUCE_MAX": "max", "REDUCE_MIN": "min"}

LONG_ROW = 8192
"""Rows longer than this are reduced in two stages where too few of them fill the GPU."""
ACROSS = 32
"""The most neighbouring vectors that a workgroup reduces side by side."""
LEAST_EACH = 8
"""The least that each invocation should read before its workgroup's part is worth a stage of its own."""


@dataclass(frozen=True)
class ColumnSlabs:
    """How a workgroup reads slabs of columns: `across` vectors at once, with `lanes` invocations on each."""

    width: int
    across: int
    slabs: int
    slab: int

    @property
    def lanes(self) -> int:
        """The invocations that share a column."""
        return 256 // self.across


def reduce(
    kind: Reduction, x: Value, y: Value, outer: int, reduced: int, inner: int, gpu: Gpu, step: str = ""
) -> list[Dispatch]:
    """Return one or two dispatches: y of `outer` x `inner` from x of `outer` x `reduced` x `inner`.

    Sums are f32; MEAN divides the finished sum. Where few workgroups would fill the GPU, slabs are reduced
    first, to f32, then the slabs' results.
    """
    factor = 1 / reduced if kind == "MEAN" else 1.0
    if inner == 1:
        return _reduce_rows(kind, x, y, outer, reduced, factor, gpu, step)
    columns = choose_columns(outer, reduced, inner, gpu)
    if columns.slabs == 1:
        return [_columns(kind, x, y, (outer, reduced, inner), columns, factor, gpu, step)]
    part = Value(f"{y.name} slabs", "f32", outer * columns.slabs * inner)
    whole = ColumnSlabs(columns.width, columns.across, 1, columns.slabs)
    return [
        _columns(kind, x, part, (outer, reduced, inner), columns, 1.0, gpu, step),
        _columns(kind, part, y, (outer, columns.slabs, inner), whole, factor, gpu, step),
    ]


def choose_columns(outer: int, reduced: int, inner: int, gpu: Gpu) -> ColumnSlabs:
    """Return slabs that give the GPU enough workgroups, none so short that a second stage costs more."""
    width = 4 if inner % 4 == 0 else 1
    vectors = inner // width
    across = 1
    while across < min(vectors, ACROSS):
        across *= 2
    groups = outer * -(-vectors // across)
    most = max(1, reduced // (256 // across * LEAST_EACH))
    slabs = min(most, -(-2 * gpu.enough_workgroups // groups))
    slab = -(-reduced // slabs)
    return ColumnSlabs(width, across, slabs=-(-reduced // slab), slab=slab)


COLUMNS = """
  let column = t % ${across}u;
  let lane = t / ${across}u;
  // Workgroups are numbered with the slab fastest, then the chunk of columns, then the outer index.
  let number = group.x + group.y * groups.x;
  let slab = number % p.slabs;
  let chunk = number / p.slabs % p.chunks;
  let outer = number / p.slabs / p.chunks;
  let c = chunk * ${across}u + column;
  let end = min(p.reduced, (slab + 1u) * p.slab);
  var own = V($start);
  if (outer < p.outer && c < p.columns) {
    for (var i = slab * p.slab + lane; i < end; i += ${lanes}u) {
      let v = V(x[(outer * p.reduced + i) * p.columns + c]);
      own = $join_v;
    }
  }
  parts[t] = own;
  workgroupBarrier();
  if (lane == 0u && outer < p.outer && c < p.columns) {
    for (var other = 1u; other < ${lanes}u; other++) {
      let v = parts[other * ${across}u + column];
      own = $join_v;
    }
    y[(outer * p.slabs + slab) * p.columns + c] = Y(own * p.factor);
  }
}
"""


def _columns(
    kind: Reduction,
    x: Value,
    y: Value,
    sizes: tuple[int, int, int],
    columns: ColumnSlabs,
    factor: float,
    gpu: Gpu,
    step: str,
) -> Dispatch:
    outer, reduced, inner = sizes
    vectors = inner // columns.width
    chunks = -(-vectors // columns.across)
    fields = [f"{name}: u32" for name in ("outer", "reduced", "columns", "slab", "slabs", "chunks")]
    code = _declarations(x, y, columns.width, columns.width, fields)
    code += f"alias V = {vector(columns.width)};\nvar<workgroup> parts: array<V, 256>;\n"
    join = JOIN[kind]
    joined = "own + v" if join == "+" else f"{join}(own, v)"
    code += MAIN + fill(COLUMNS, across=columns.across, lanes=columns.lanes, start=START[kind], join_v=joined)
    return Dispatch(
        kernel=Kernel(f"{kind} of columns", code),
        reads=(x,),
        writes=(y,),
        groups=groups_for(outer * chunks * columns.slabs, gpu.workgroups),
        params=(outer, reduced, vectors, columns.slab, columns.slabs, chunks, factor),
        flops=outer * reduced * inner,
        step=step,
    )


def _reduce_rows(
    kind: Reduction, x: Value, y: Value, rows: int, length: int, factor: float, gpu: Gpu, step: str
) -> list[Dispatch]:
    inner = gcd(length, 1024)
    if length <= LONG_ROW or rows >= gpu.enough_workgroups or inner < 16:
        return [_rows(kind, x, y, rows, length, factor, gpu, step)]
    folded_rows = Value(f"{y.name} folded", "f32", rows * inner)
    total: Reduction = "SUM" if kind == "MEAN" else kind
    first = reduce(total, x, folded_rows, rows, length // inner, inner, gpu, step)
    return [*first, _rows(kind, folded_rows, y, rows, inner, factor, gpu, step)]


def _rows(
    kind: Reduction, x: Value, y: Value, rows: int, length: int, factor: float, gpu: Gpu, step: str
) -> Dispatch:
    layout = choose_rows(length)
    code = _declarations(x, y, layout.width, 1, ["rows: u32", "columns: u32"])
    join = JOIN[kind]
    code += meeting("parts", "f32", "a + b" if join == "+" else f"{join}(a, b)", layout.lanes)
    code += row_start(layout) + _fold(kind, layout)
    return Dispatch(
        kernel=Kernel(f"{kind} of rows, {layout.lanes} lanes", code),
        reads=(x,),
        writes=(y,),
        groups=groups_for(-(-rows // layout.rows), gpu.workgroups),
        params=(rows, length // layout.width, factor),
        flops=rows * length,
        step=step,
    )


def _fold(kind: Reduction, layout: Rows) -> str:
    join = JOIN[kind]
    return (
        f"  var own = {vector(layout.width)}({START[kind]});\n"
        + visit(layout, "own += $v;" if join == "+" else f"own = {join}(own, $v);")
        + f"  let met = meet_parts({folded(join, layout.width, 'own')}, t);\n"
        + "  if (lane == 0u && row < p.rows) { y[row] = Y(met * p.factor); }\n}\n"
    )


def _declarations(x: Value, y: Value, x_width: int, y_width: int, fields: list[str]) -> str:
    code = header({"x": (x, x_width)}, {"y": (y, y_width)}, [*fields, "factor: f32"], half=has_half((x, y)))
    return code + f"alias Y = {y.element if y_width == 1 else f'vec4<{y.element}>'};\n"

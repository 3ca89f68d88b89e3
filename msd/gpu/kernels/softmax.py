"""Softmax of rows, and the first half of a partially fused one: the statistics alone."""

from __future__ import annotations

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.rows import Rows, choose_rows, folded, has_half, meeting, row_start, vector, visit
from msd.gpu.operations import Softmax
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import groups_for, header

LOWEST = "-3.4028234e38"
"""The lowest finite f32: stands for minus infinity, of which differences would be no numbers."""

JOINED = "vec2<f32>(max(a.x, b.x), a.y * exp(a.x - max(a.x, b.x)) + b.y * exp(b.x - max(a.x, b.x)))"
"""Milakov & Gimelshein, arXiv 1805.02867, section 3.1: maximum and sum of exponentials of two parts."""


def softmax(op: Softmax, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return one dispatch: rows are read once where they fit registers; exponentials and sums are f32."""
    rows = choose_rows(op.columns)
    body = f"y[base + $c] = Y(exp({_scaled('$v', rows)} - maximum) / sum);"
    finish = f"  if (row < p.rows) {{\n{visit(rows, body)}  }}\n}}\n"
    return [_dispatch(op, rows, op.y, rows.width, finish, gpu, step)]


def row_statistics(op: Softmax, stats: Value, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return one dispatch that writes f32 pairs to `stats`: each row's maximum of beta*x, and its sum.

    The sum is that of exp(beta*x - maximum).

    "Speed Is All You Need", arXiv 2304.11267, section 3.3: a reduction in stages inside one command; what is
    left of the softmax happens while the next product loads. `op.y` is not used.
    """
    rows = choose_rows(op.columns)
    finish = "  if (lane == 0u && row < p.rows) { y[2u * row] = maximum; y[2u * row + 1u] = sum; }\n}\n"
    return [_dispatch(op, rows, stats, 1, finish, gpu, step)]


def _dispatch(op: Softmax, rows: Rows, y: Value, y_width: int, finish: str, gpu: Gpu, step: str) -> Dispatch:
    code = header(
        {"x": (op.x, rows.width)},
        {"y": (y, y_width)},
        ["rows: u32", "columns: u32", "beta: f32"],
        half=has_half((op.x, y)),
    )
    code += f"alias Y = {y.element if y_width == 1 else f'vec4<{y.element}>'};\n"
    code += meeting("stats", "vec2<f32>", JOINED, rows.lanes)
    code += row_start(rows) + _measure(rows) + finish
    variant = "softmax" if y is op.y else "row statistics"
    return Dispatch(
        kernel=Kernel(f"{variant}, {rows.lanes} lanes", code),
        reads=(op.x,),
        writes=(y,),
        groups=groups_for(-(-op.rows // rows.rows), gpu.workgroups),
        params=(op.rows, op.columns // rows.width, float(op.beta)),
        flops=5 * op.rows * op.columns,
        step=step,
    )


def _measure(rows: Rows) -> str:
    """Return WGSL that computes `maximum` and `sum` of the row; minus infinity is read as the lowest f32."""
    kind = vector(rows.width)
    scaled = _scaled("$v", rows)
    return (
        f"  var highest = {kind}({LOWEST});\n"
        + visit(rows, f"highest = max(highest, {scaled});")
        + f"  let top = {folded('max', rows.width, 'highest')};\n"
        + f"  var sums = {kind}(0.0);\n"
        + visit(rows, f"sums += exp({scaled} - top);")
        + f"  let met = meet_stats(vec2<f32>(top, {folded('+', rows.width, 'sums')}), t);\n"
        + "  let maximum = met.x;\n  let sum = met.y;\n"
    )


def _scaled(value: str, rows: Rows) -> str:
    return f"max({value} * p.beta, {vector(rows.width)}({LOWEST}))"

"""A matrix times a few vectors: projections of a time embedding. Its time goes into reading weights."""

from __future__ import annotations

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.epilogue import finish
from msd.gpu.kernels.images import is_pointwise
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.widening import filter_words, raw_width, widening
from msd.gpu.operations import Conv2D
from msd.gpu.value import Dispatch
from msd.gpu.wgsl import fill, groups_for

MOST = 4
"""The most rows; each is a sum of its own in every thread."""

LANES = 8
"""The vectors of four columns that a workgroup computes: 32 bytes of int8 side by side."""

_MAIN = """
var<workgroup> sums: array<vec4<f32>, $size>;
$functions
fn added(row: u32, lane: u32) -> vec4<f32> {
    var total = vec4<f32>(0.0);
    for (var i = 0u; i < 32u; i++) { total += sums[(row * 32u + i) * ${lanes}u + lane]; }
    return total;
}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let first = (group.x + group.y * groups.x) * ${lanes}u;
    let lane = thread % ${lanes}u;
    let column = min(first + lane, p.columns4 - 1u);
    $sums
    for (var k = thread / ${lanes}u; k < p.depth; k += 32u) {
        let w = widen(raw_weights(0u, k, column));
        $multiply
    }
    $keep
    workgroupBarrier();
    if (thread < ${finishing}u) { $finish }
}
"""


def fits_few_rows(op: Conv2D) -> bool:
    """Return whether `few_rows` computes the operation."""
    return op.pixels <= MOST and is_pointwise(op)


def few_rows(op: Conv2D, gpu: Gpu, step: str = "") -> Dispatch:
    """Return the dispatch of a pointwise convolution of at most `MOST` pixels.

    32 threads share a column, each with every 32nd weight. Raises ValueError for other convolutions.
    """
    if not fits_few_rows(op):
        raise ValueError(f"{op.pixels} pixels under a filter of {op.kernel} are not a few vectors")
    end = finish(op)
    rows, pairs = range(op.pixels), op.epilogue.gate
    lanes = LANES // 2 if pairs else LANES
    value = "added(row, 2u * at), added(row, 2u * at + 1u)" if pairs else "added(row, at)"
    body = fill(
        _MAIN,
        size=op.pixels * 32 * LANES,
        functions=widening(op.filter) + end.functions,
        lanes=LANES,
        threads=32 * LANES,
        sums="\n".join(f"var s{i} = vec4<f32>(0.0);" for i in rows),
        multiply="\n".join(f"s{i} = fma(vec4<f32>(f32(x[{i}u * p.depth + k])), w, s{i});" for i in rows),
        keep="\n".join(f"sums[{i * 32 * LANES}u + thread] = s{i};" for i in rows),
        finishing=op.pixels * lanes,
        finish=f"let row = thread / {lanes}u; let at = thread % {lanes}u;\n"
        f"finish(row, first{' / 2u' if pairs else ''} + at, {value});",
    )
    params = {"depth": op.filter.rows, "filter_words": filter_words(op.filter)} | end.params
    reads = {"x": (op.x, 1), "weights": (op.filter.values, raw_width(op.filter))}
    groups = groups_for(-(-params["columns4"] // LANES), gpu.workgroups)
    name = f"convolution {op.pixels} rows"
    return shader_dispatch(name, body, reads | end.reads, end.writes, params, groups, op.flops, step)

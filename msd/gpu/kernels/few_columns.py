"""A convolution to a few channels: the last one of a network. Eight threads share a pixel."""

from __future__ import annotations

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.epilogue import finish
from msd.gpu.kernels.images import corner_functions, image_params
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.widening import filter_words, raw_width, widening
from msd.gpu.operations import Conv2D
from msd.gpu.value import Dispatch
from msd.gpu.wgsl import fill, groups_for

MOST = 8
"""The most columns; the tiled product would leave most of a tile empty."""

PIXELS = 16
"""The pixels of a workgroup."""

_MAIN = """
var<workgroup> sums: array<vec4<f32>, $size>;
$functions
fn total(pixel: u32, column: u32) -> vec4<f32> {
    var v = vec4<f32>(0.0);
    for (var i = 0u; i < 8u; i++) { v += sums[(column * ${pixels}u + pixel) * 8u + i]; }
    return v;
}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let first = (group.x + group.y * groups.x) * ${pixels}u;
    let from_corner = corner(min(first + thread / 8u, p.rows - 1u));
    $sums
    for (var ky = 0u; ky < p.kernel_height; ky++) {
        for (var kx = 0u; kx < p.kernel_width; kx++) {
            let pixel = pixel_at(from_corner, vec2<u32>(ky, kx));
            if (pixel < 0) { continue; }
            let at = u32(pixel) * (p.channels / 4u);
            let k = (ky * p.kernel_width + kx) * p.channels;
            for (var c = thread % 8u; c < p.channels / 4u; c += 8u) {
                let v = vec4<f32>(x[at + c]);
                $multiply
            }
        }
    }
    $keep
    workgroupBarrier();
    if (thread < ${pixels}u) { $finish }
}
"""


def fits_few_columns(op: Conv2D) -> bool:
    """Return whether `few_columns` computes the operation."""
    return op.filter.columns <= MOST and op.channels % 4 == 0


def few_columns(op: Conv2D, gpu: Gpu, step: str = "") -> Dispatch:
    """Return the dispatch of a convolution to at most `MOST` channels; raises ValueError for others.

    Eight threads share a pixel, each with every eighth vector of four channels.
    """
    if not fits_few_columns(op):
        raise ValueError(
            f"a convolution of {op.channels} to {op.filter.columns} channels has not few columns"
        )
    end = finish(op)
    columns = range(end.params["columns4"])
    threads = 8 * PIXELS
    body = fill(
        _MAIN,
        size=threads * len(columns),
        functions=widening(op.filter) + corner_functions(op) + end.functions,
        pixels=PIXELS,
        threads=threads,
        sums="\n".join(f"var s{j} = vec4<f32>(0.0);" for j in columns),
        multiply="\n".join(
            f"s{j} = fma(vec4<f32>(v.{part}), widen(raw_weights(0u, k + 4u * c + {i}u, {j}u)), s{j});"
            for i, part in enumerate("xyzw")
            for j in columns
        ),
        keep="\n".join(f"sums[{j * threads}u + thread] = s{j};" for j in columns),
        finish="finish(first + thread, 0u, total(thread, 0u), total(thread, 1u));"
        if op.epilogue.gate
        else "\n".join(f"finish(first + thread, {j}u, total(thread, {j}u));" for j in columns),
    )
    params = {"filter_words": filter_words(op.filter)} | image_params(op) | end.params
    reads = {"x": (op.x, 4), "weights": (op.filter.values, raw_width(op.filter))}
    groups = groups_for(-(-op.pixels // PIXELS), gpu.workgroups)
    name = f"convolution {op.filter.columns} columns"
    return shader_dispatch(name, body, reads | end.reads, end.writes, params, groups, op.flops, step)

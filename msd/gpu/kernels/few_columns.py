"""A convolution to a few channels: the last one of a network. Eight threads share pixels."""

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
"""The pixels of a workgroup whose threads have one each."""

MANY = 4
"""The most pixels of a thread: each weight is widened once for all of them."""

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
    $begin
    for (var ky = 0u; ky < p.kernel_height; ky++) {
        for (var kx = 0u; kx < p.kernel_width; kx++) {
            let k = (ky * p.kernel_width + kx) * p.channels;
            $place
            for (var c = thread % 8u; c < p.channels / 4u; c += 8u) {
                $multiply
            }
        }
    }
    $keep
    workgroupBarrier();
    if (thread < ${pixels}u) { $finish }
}
"""

_BEGIN = "let corner$z = corner(min(first + thread / 8u + ${ahead}u, p.rows - 1u));"

_PLACE = """
let pixel$z = pixel_at(corner$z, vec2<u32>(ky, kx));
let at$z = u32(max(pixel$z, 0)) * (p.channels / 4u);
"""

_READ = "let v$z = select(vec4<f32>(0.0), vec4<f32>(x[at$z + c]), pixel$z >= 0);"


def fits_few_columns(op: Conv2D) -> bool:
    """Return whether `few_columns` computes the operation."""
    return op.filter.columns <= MOST and op.channels % 4 == 0


def few_columns(op: Conv2D, gpu: Gpu, step: str = "") -> Dispatch:
    """Return the dispatch of a convolution to at most `MOST` channels; raises ValueError for others.

    Eight threads share pixels, each with every eighth vector of four channels.
    """
    if not fits_few_columns(op):
        raise ValueError(
            f"a convolution of {op.channels} to {op.filter.columns} channels has not few columns"
        )
    end = finish(op)
    columns, each = range(end.params["columns4"]), range(pixels_each(op, gpu))
    pixels = PIXELS * len(each)
    body = fill(
        _MAIN,
        size=8 * pixels * len(columns),
        functions=widening(op.filter) + corner_functions(op) + end.functions,
        pixels=pixels,
        threads=8 * PIXELS,
        begin=_begin(op, columns, each),
        place="".join(fill(_PLACE, z=z) for z in each),
        multiply=_multiply(op, columns, each),
        keep=_keep(op, columns, each),
        finish="finish(first + thread, 0u, total(thread, 0u), total(thread, 1u));"
        if op.epilogue.gate
        else "\n".join(f"finish(first + thread, {j}u, total(thread, {j}u));" for j in columns),
    )
    params = {"filter_words": filter_words(op.filter)} | image_params(op) | end.params
    reads = {"x": (op.x, 4), "weights": (op.filter.values, raw_width(op.filter))}
    groups = groups_for(-(-op.pixels // pixels), gpu.workgroups)
    name = f"convolution {op.filter.columns} columns"
    return shader_dispatch(name, body, reads | end.reads, end.writes, params, groups, op.flops, step)


def pixels_each(op: Conv2D, gpu: Gpu) -> int:
    """Return the pixels of a thread: several where each processor still has a workgroup."""
    each = MANY // -(-op.filter.columns // 4)
    while each > 1 and op.pixels < each * PIXELS * gpu.processors:
        each //= 2
    return each


def _width(op: Conv2D) -> int:
    """Return how many columns a thread multiplies at once: no more than there are."""
    return min(op.filter.columns, 4)


def _kind(op: Conv2D) -> str:
    return "f32" if _width(op) == 1 else f"vec{_width(op)}<f32>"


def _begin(op: Conv2D, columns: range, each: range) -> str:
    """Return the WGSL of where each pixel begins in the input, and of its sums."""
    corners = [fill(_BEGIN, z=z, ahead=z * PIXELS) for z in each]
    return "\n".join(corners + [f"var s{j}_{z} = {_kind(op)}(0.0);" for j in columns for z in each])


def _multiply(op: Conv2D, columns: range, each: range) -> str:
    """Return the WGSL that adds the products of four channels of each pixel."""
    lines = [fill(_READ, z=z) for z in each]
    for j in columns:
        for i, part in enumerate("xyzw"):
            widened = f"widen(raw_weights(0u, k + 4u * c + {i}u, {j}u)).{'xyzw'[: _width(op)]}"
            lines.append(f"let w{j}{part} = {widened};")
            lines += [f"s{j}_{z} = fma({_kind(op)}(v{z}.{part}), w{j}{part}, s{j}_{z});" for z in each]
    return "\n".join(lines)


def _keep(op: Conv2D, columns: range, each: range) -> str:
    """Return the WGSL that brings a thread's sums to workgroup memory."""
    zeros = ", 0.0" * (4 - _width(op))
    return "\n".join(
        f"sums[{8 * PIXELS * (j * len(each) + z)}u + thread] = vec4<f32>(s{j}_{z}{zeros});"
        for j in columns
        for z in each
    )

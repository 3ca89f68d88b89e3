"""The output of a Winograd convolution, written and measured in one pass for the group norm that reads it.

A workgroup transforms LANES tiles of COLUMNS vectors of channels and writes, beside their pixels, the moments
of each channel in them: (high, low, square, count) as msd.gpu.kernels.group_shader has them. The norm then
joins moments instead of reading the image again, one time less than in "Speed Is All You Need", arXiv
2304.11267, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.epilogue import finish
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.kernels.winograd_matrices import winograd_matrices
from msd.gpu.kernels.winograd_transforms import both_sides, inside, put_pixel, read_products
from msd.gpu.operations import Conv2D
from msd.gpu.value import Dispatch, Value
from msd.gpu.wgsl import fill

COLUMNS, LANES = 8, 16
"""The vectors of four channels side by side in a workgroup, half a line of the cache, and its tiles."""

BODY = """
$functions
var<workgroup> references: array<vec4<f32>, ${columns}>;
var<workgroup> sums: array<vec4<f32>, ${invocations}>;
var<workgroup> squares: array<vec4<f32>, ${invocations}>;
var<workgroup> counts: array<f32, ${lanes}>;
@compute @workgroup_size(${invocations})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let image = group.z;
    let lane = thread / ${columns}u;
    let place = thread % ${columns}u;
    let live = group.x * ${columns}u + place < p.columns4 && group.y * ${lanes}u + lane < p.image_tiles;
    let column = min(group.x * ${columns}u + place, p.columns4 - 1u);
    let place_of_tile = min(group.y * ${lanes}u + lane, p.image_tiles - 1u);
    let tile = image * p.image_tiles + place_of_tile;
    let top = place_of_tile / p.tiles_across * ${tile}u;
    let start = place_of_tile % p.tiles_across * ${tile}u;
    let offset = shift(column);
    var high = vec4<f32>(0.0);
    var sum = vec4<f32>(0.0);
    var square = vec4<f32>(0.0);
    $transform
    sums[thread] = sum;
    squares[thread] = square;
    if (place == 0u) {
        let inside = min(${tile}u, p.out_height - top) * min(${tile}u, p.out_width - start);
        counts[lane] = select(0.0, f32(inside), live);
    }
    workgroupBarrier();
    if (lane > 0u || !live) { return; }
    var count = counts[0];
    for (var other = 1u; other < ${lanes}u; other++) {
        sum += sums[other * ${columns}u + place];
        square += squares[other * ${columns}u + place];
        count += counts[other];
    }
    let low = sum / count;
    square -= sum * low;
    let first = ((image * p.columns4 + column) * 4u) * p.slabs + group.y;
    parts[first] = vec4<f32>(high.x, low.x, square.x, count);
    parts[first + p.slabs] = vec4<f32>(high.y, low.y, square.y, count);
    parts[first + 2u * p.slabs] = vec4<f32>(high.z, low.z, square.z, count);
    parts[first + 3u * p.slabs] = vec4<f32>(high.w, low.w, square.w, count);
}
"""

MEET = """
    if (lane == 0u) { references[place] = v0_0; }
    workgroupBarrier();
    high = references[place];
    { let d = select(vec4<f32>(0.0), v0_0 - high, live); sum += d; square += d * d; }
"""
"""All invocations of a column take differences to the first value that its first tile has."""


@dataclass(frozen=True)
class MeasuredOutput:
    """`plain` writes an image; `measuring` does too, and `parts`, the moments of its channels.

    These are vec4<f32> of images x channels x `slabs`.
    """

    plain: Dispatch
    measuring: Dispatch
    parts: Value
    slabs: int


def measured_output(op: Conv2D, plain: Dispatch, tile: int, gpu: Gpu) -> MeasuredOutput | None:
    """Return how to measure the result of `plain`, the last dispatch of `winograd`; None where it cannot be.

    It cannot where the result is part of another tensor, or has channels not in fours.
    """
    products = plain.reads[0]
    image_tiles = -(-op.out_height // tile) * -(-op.out_width // tile)
    slabs, across = -(-image_tiles // LANES), -(-op.outputs // (4 * COLUMNS))
    if op.y_row is not None or op.outputs % 4 or max(slabs, across, op.batch) > gpu.workgroups:
        return None
    end = finish(op)
    parts = Value(f"{op.y.name} moments", "f32", 4 * op.batch * op.outputs * slabs)
    params = {
        "tiles": op.batch * image_tiles,
        "image_tiles": image_tiles,
        "tiles_across": -(-op.out_width // tile),
        "out_height": op.out_height,
        "out_width": op.out_width,
        "slabs": slabs,
    }
    body = _body(tile, end.functions)
    reads, writes = {"m": (products, 4)} | end.reads, end.writes | {"parts": (parts, 4)}
    if len(reads) + len(writes) > gpu.storage_buffers:
        return None
    groups, computed = (across, slabs, op.batch), plain.arithmetic + 3 * op.pixels * op.outputs
    name = f"{plain.kernel.name}, measured"
    found = shader_dispatch(name, body, reads, writes, params | end.params, groups, 0, plain.step, computed)
    return MeasuredOutput(plain, found, parts, slabs)


def _body(tile: int, functions: str) -> str:
    transform = both_sides(
        winograd_matrices(tile).output, tile + 2, "vec4<f32>", read_products(tile), _writes(tile)
    )
    return fill(
        BODY,
        functions=functions,
        tile=tile,
        transform=transform,
        columns=COLUMNS,
        lanes=LANES,
        invocations=COLUMNS * LANES,
    )


def _writes(tile: int) -> Callable[[int, int, str], str]:
    """Return what writes and sums a pixel; those outside the image are neither written nor summed."""

    def write(i: int, j: int, value: str) -> str:
        live = f"live && {inside(i, j)}"
        put = f"let v{i}_{j} = {put_pixel(i, j, value, live)};\n"
        if i == j == 0:
            return put + MEET
        summed = f"select(vec4<f32>(0.0), v{i}_{j} - high, {live})"
        return put + f"{{ let d = {summed}; sum += d; square += d * d; }}"

    return write

"""Pixels under a convolution's filter as the left operand of a product: nothing is laid out in memory for it.

Row m of the operand is a pixel of the result, column k = (ky*kernel_width + kx)*channels + c one channel
under one tap.
"""

from __future__ import annotations

from dataclasses import replace

from msd.gpu.kernels.operands import block_operand
from msd.gpu.kernels.tile import AnyTile, TileOperand
from msd.gpu.operations import Conv2D
from msd.gpu.wgsl import fill


def is_pointwise(op: Conv2D) -> bool:
    """Return whether each pixel of the result needs just the pixel of the input at its place."""
    same = (op.height, op.width) == (op.out_height, op.out_width)
    plain = op.stride == (1, 1) and op.pad == (0, 0) and op.upsample == 1
    return op.kernel == (1, 1) and same and plain


def image_width(op: Conv2D) -> int:
    """Return the width of the elements that the binding `x` has for `image_operand`."""
    return 4 if op.channels % 4 == 0 else 1


def image_params(op: Conv2D) -> dict[str, int]:
    """Return the parameters that the functions of this module read."""
    return {
        "channels": op.channels,
        "height": op.height * op.upsample,
        "width": op.width * op.upsample,
        "row_pixels": op.width,
        "image_rows": op.height,
        "out_width": op.out_width,
        "kernel_height": op.kernel[0],
        "kernel_width": op.kernel[1],
        "stride_y": op.stride[0],
        "stride_x": op.stride[1],
        "dilation_y": op.dilation[0],
        "dilation_x": op.dilation[1],
        "pad_y": op.pad[0],
        "pad_x": op.pad[1],
    }


def image_operand(op: Conv2D, tile: AnyTile) -> TileOperand:
    """Return the left operand of a convolution, by vectors of channels where they divide by four."""
    if op.channels % 4:
        return _by_elements(op, tile)
    return _pointwise(op, tile) if is_pointwise(op) else _by_taps(op, tile)


def corner_functions(op: Conv2D) -> str:
    """Return the WGSL of `corner(row)`, where a pixel of the result begins in the input, and `pixel_at`.

    corner(row) is (first row of its image, y, x) of the first tap. pixel_at(corner, tap) is the number of the
    pixel under tap (y, x), -1 outside.
    """
    return fill(_CORNER, upsample=op.upsample)


_CORNER = """
fn corner(row: u32) -> vec3<i32> {
    let image = row / p.image_pixels;
    let pixel = row % p.image_pixels;
    let y = i32(pixel / p.out_width * p.stride_y) - i32(p.pad_y);
    let x = i32(pixel % p.out_width * p.stride_x) - i32(p.pad_x);
    return vec3<i32>(i32(image * p.image_rows), y, x);
}
fn pixel_at(from_corner: vec3<i32>, tap: vec2<u32>) -> i32 {
    let y = u32(from_corner.y + i32(tap.x * p.dilation_y));
    let x = u32(from_corner.z + i32(tap.y * p.dilation_x));
    // A negative coordinate is a large one when it is unsigned.
    let outside = y >= p.height || x >= p.width || tap.x >= p.kernel_height;
    let at = (from_corner.x + i32(y / ${upsample}u)) * i32(p.row_pixels) + i32(x / ${upsample}u);
    return select(at, -1, outside);
}
"""


def _pointwise(op: Conv2D, tile: AnyTile) -> TileOperand:
    whole = op.channels % tile.depth == 0

    def setup(name: str) -> str:
        rows = f"min(first_row + {name}_line + {{}}u, p.rows - 1u)"
        lines = (
            f"let {name}_at{i} = {rows.format(i)} * (p.channels / 4u) + {name}_k / 4u;" for i in range(4)
        )
        return "\n".join(lines) + "\n"

    def fetch(name: str) -> str:
        read = "".join(f"{name}_{i} = x[{name}_at{i} + k / 4u];\n" for i in range(4))
        if whole:
            return read
        zero = "".join(f"{name}_{i} = vec4<{op.x.element}>();\n" for i in range(4))
        return zero + f"if (k + {name}_k < p.depth) {{\n{read}}}\n"

    return block_operand(tile, "left", op.x.element, setup, fetch)


_TAP_SETUP = """
var ${n}_c = (begin + ${n}_k) % p.channels;
var ${n}_tap = vec2<u32>((begin + ${n}_k) / p.channels, 0u);
${n}_tap = vec2<u32>(${n}_tap.x / p.kernel_width, ${n}_tap.x % p.kernel_width);
"""

_TAP_LINE = """
let ${n}_corner$i = corner(min(first_row + ${n}_line + ${i}u, p.rows - 1u));
var ${n}_at$i = pixel_at(${n}_corner$i, ${n}_tap);
"""

_TAP_FETCH = """
${n}_$i = vec4<$element>();
if (${n}_at$i >= 0) { ${n}_$i = x[(u32(${n}_at$i) * p.channels + ${n}_c) / 4u]; }
"""

_TAP_ADVANCE = """
${n}_c += ${depth}u;
if (${n}_c >= p.channels) {
    $count
    if (${n}_tap.y >= p.kernel_width) {
        ${n}_tap = vec2<u32>(${n}_tap.x + ${n}_tap.y / p.kernel_width, ${n}_tap.y % p.kernel_width);
    }
    $place
}
"""

_ONE_TAP = "${n}_c -= p.channels; ${n}_tap.y += 1u;"
_SOME_TAPS = "${n}_tap.y += ${n}_c / p.channels; ${n}_c = ${n}_c % p.channels;"


def _by_taps(op: Conv2D, tile: AnyTile) -> TileOperand:
    """Return an operand of which each thread follows its own tap and channel from step to step."""

    def setup(name: str) -> str:
        return fill(_TAP_SETUP, n=name) + "".join(fill(_TAP_LINE, n=name, i=i) for i in range(4))

    def fetch(name: str) -> str:
        return "".join(fill(_TAP_FETCH, n=name, i=i, element=op.x.element) for i in range(4))

    def advance(name: str) -> str:
        count = _ONE_TAP if op.channels >= tile.depth else _SOME_TAPS
        place = "\n".join(f"{name}_at{i} = pixel_at({name}_corner{i}, {name}_tap);" for i in range(4))
        return fill(_TAP_ADVANCE, n=name, depth=tile.depth, count=fill(count, n=name), place=place)

    return block_operand(tile, "left", op.x.element, setup, fetch, advance) | corner_functions(op)


_ELEMENTS = """
for (var z = 0u; z < 4u; z++) {
    let at = k + ${n}_k + z;
    let tap = vec2<u32>(at / p.channels / p.kernel_width, at / p.channels % p.kernel_width);
    let channel = at % p.channels;
$lines
}
"""

_ELEMENT = """
    ${n}_$i[z] = $kind(0.0);
    let pixel$i = pixel_at(${n}_corner$i, tap);
    if (pixel$i >= 0) { ${n}_$i[z] = x[u32(pixel$i) * p.channels + channel]; }
"""


def _by_elements(op: Conv2D, tile: AnyTile) -> TileOperand:
    """Return an operand that is read element by element, for channels that do not divide by four."""
    kind = op.x.element

    def setup(name: str) -> str:
        rows = f"min(first_row + {name}_line + {{}}u, p.rows - 1u)"
        return "\n".join(f"let {name}_corner{i} = corner({rows.format(i)});" for i in range(4)) + "\n"

    def fetch(name: str) -> str:
        lines = "".join(fill(_ELEMENT, n=name, i=i, kind=kind) for i in range(4))
        return fill(_ELEMENTS, n=name, lines=lines)

    return replace(block_operand(tile, "left", kind, setup, fetch) | corner_functions(op), early=False)

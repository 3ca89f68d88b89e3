"""Weights read from a packed filter and widened to f32 in WGSL."""

from __future__ import annotations

from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tile import AnyTile, shrink
from msd.gpu.operations import Filter, Stored

_READ = "fn raw_weights(base: u32, row: u32, column: u32) -> {kind} {{ return {expression}; }}\n"

_SIGNED = "return vec4<f32>((vec4<i32>(bitcast<i32>(w)) << vec4<u32>({shifts})) >> vec4<u32>({down}u));"

_WIDEN = {
    "int8": _SIGNED.format(shifts="24u, 16u, 8u, 0u", down=24),
    "int4": _SIGNED.format(shifts="28u, 24u, 20u, 16u", down=28),
    "f16": "return vec4<f32>(w);",
    "f32": "return w;",
    "pairs": "return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));",
}

_BITS = {"int8": 8, "int4": 4}

MOST_SHORT = 32
"""The most products of a short sum with floats that are stored `shrunk`."""

_TILED = "fn widen_tiled(w: {kind}) -> T4 {{ {body} }}\n"

_INT8_TO_HALF = """
    // 2^23 + n has the bits of 2^23 with n in the last byte; taking 2^23 + 128 off again is exact.
    let u = (vec4<u32>(w ^ 0x80808080u) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    let v = bitcast<vec4<f32>>(u | vec4<u32>(0x4b000000u));
    return T4((v - vec4<f32>(8388736.0)) * {factor});
"""

_INT8_TO_MATRIX = """
    // 1024 + n has the bits of 1024 with n in the last byte, as f16; taking 1024 + 128 off again is exact.
    let u = w ^ 0x80808080u;
    let even = bitcast<vec2<f16>>((u & 0x00ff00ffu) | 0x64006400u) - vec2<f16>(1152.0h);
    let odd = bitcast<vec2<f16>>(((u >> 8u) & 0x00ff00ffu) | 0x64006400u) - vec2<f16>(1152.0h);
    return T4(even.x, odd.x, even.y, odd.y);
"""


def raw_type(filter_: Filter) -> str:
    """Return the WGSL type of four columns of a row as they lie in memory."""
    if filter_.stored in ("int8", "int4"):
        return "u32"
    return f"vec{raw_width(filter_)}<{filter_.values.element}>"


def raw_width(filter_: Filter) -> int:
    """Return the width of the elements that the binding `weights` has."""
    if filter_.stored in ("int8", "int4"):
        return 1
    return 2 if filter_.values.element == "u32" else 4


def filter_words(filter_: Filter) -> int:
    """Return the elements of the binding `weights` in a row."""
    return -(-filter_.columns // (8 if filter_.stored == "int4" else 4))


def widening(filter_: Filter, read: bool = True) -> str:
    """Return the WGSL of raw_weights(base, row, column), to `read` with, and widen(raw).

    `column` counts vectors of four; `base` and the parameter `filter_words`, a row's, count elements of the
    binding `weights`. int4's raw weights have their four columns in the lower half of the word.
    """
    expression = "weights[base + row * p.filter_words + column]"
    if filter_.stored == "int4":
        expression = "weights[base + row * p.filter_words + column / 2u] >> (16u * (column % 2u))"
    paired = filter_.stored == "f16" and filter_.values.element == "u32"
    body = _WIDEN["pairs" if paired else filter_.stored]
    kind = raw_type(filter_)
    reading = _READ.format(kind=kind, expression=expression) if read else ""
    return reading + f"fn widen(w: {kind}) -> vec4<f32> {{ {body} }}\n"


def tile_shrink(filter_: Filter, tile: AnyTile) -> float:
    """Return the factor of `tile_widening`'s weights, a power of two; raises ValueError for unbounded ones.

    Other floats than those that are `shrunk` have no bound that is known before they are read, so that their
    short sums might overflow f16.
    """
    if not tile.short or (filter_.shrunk < 1 and tile.short <= MOST_SHORT):
        return 1.0
    if filter_.stored not in _BITS:
        raise ValueError(f"weights stored as {filter_.stored} have no bound for short sums")
    return shrink(_BITS[filter_.stored], tile)


def widen_name(tile: AnyTile) -> str:
    """Return the function that widens a filter's weights for a tile's workgroup memory."""
    return "widen" if tile.stored == "f32" and not tile.short else "widen_tiled"


def tile_widening(filter_: Filter, tile: AnyTile, read: bool = True) -> str:
    """Return `widening`, and what widens weights for workgroup memory, where they may be smaller."""
    code = widening(filter_, read)
    if widen_name(tile) == "widen":
        return code
    factor, matrix = tile_shrink(filter_, tile), isinstance(tile, MatrixTile)
    body = f"return T4(widen(w) * {factor!r});"
    if filter_.stored == "int8" and tile.stored == "f16":
        body = _INT8_TO_MATRIX if matrix else _INT8_TO_HALF.format(factor=repr(factor))
    return code + _TILED.format(kind=raw_type(filter_), body=body)


def is_bounded(filter_: Filter) -> bool:
    """Return whether short sums of a filter's weights cannot overflow: of integers, and of shrunk floats."""
    return filter_.stored in _BITS or filter_.shrunk < 1


def fits_half(filter_: Filter) -> bool:
    """Return whether f16 holds a filter's weights exactly, without the scale of a column."""
    return filter_.stored != "f32"


def shrunk_by(stored: Stored) -> float:
    """Return the factor by which weights stored so are at most 1/32; 1 for floats, whose bound is unknown."""
    return 2.0 ** (1 - _BITS[stored]) / MOST_SHORT if stored in _BITS else 1.0

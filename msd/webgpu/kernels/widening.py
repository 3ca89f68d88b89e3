"""Weights read from a packed filter and widened to f32 in WGSL."""

from __future__ import annotations

from msd.webgpu.operations import Filter

_READ = "fn raw_weights(base: u32, row: u32, column: u32) -> {kind} {{ return {expression}; }}\n"

_SIGNED = "return vec4<f32>((vec4<i32>(bitcast<i32>(w)) << vec4<u32>({shifts})) >> vec4<u32>({down}u));"

_WIDEN = {
    "int8": _SIGNED.format(shifts="24u, 16u, 8u, 0u", down=24),
    "int4": _SIGNED.format(shifts="28u, 24u, 20u, 16u", down=28),
    "f16": "return vec4<f32>(w);",
    "f32": "return w;",
    "pairs": "return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));",
}


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


def widening(filter_: Filter) -> str:
    """Return the WGSL of raw_weights(base, row, column) and widen(raw).

    `column` counts vectors of four; `base` and the parameter `filter_words`, a row's, count elements of the
    binding `weights`. int4's raw weights have their four columns in the lower half of the word.
    """
    expression = "weights[base + row * p.filter_words + column]"
    if filter_.stored == "int4":
        expression = "weights[base + row * p.filter_words + column / 2u] >> (16u * (column % 2u))"
    paired = filter_.stored == "f16" and filter_.values.element == "u32"
    body = _WIDEN["pairs" if paired else filter_.stored]
    kind = raw_type(filter_)
    return _READ.format(kind=kind, expression=expression) + f"fn widen(w: {kind}) -> vec4<f32> {{ {body} }}\n"

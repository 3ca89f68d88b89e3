"""Activations in WGSL, on f32 scalars or vectors of four."""

from __future__ import annotations

from math import pi, sqrt

from msd.webgpu.operations import Activation

CLIP = 10.0
"""GELU's argument is clipped to this; beyond it the sigmoid is 0 or 1 in f32 (see clip_gelu.py)."""

_SLOPE = 2 * sqrt(2 / pi)

_BODIES: dict[Activation, str] = {
    "NONE": "return v;",
    "RELU": "return max(v, T(0.0));",
    "RELU6": "return clamp(v, T(0.0), T(6.0));",
    "RELU_N1_TO_1": "return clamp(v, T(-1.0), T(1.0));",
    "TANH": "return tanh(clamp(v, T(-15.0), T(15.0)));",
    "LOGISTIC": "return T(1.0) / (T(1.0) + exp(-v));",
    "SILU": "return v / (T(1.0) + exp(-v));",
    "QUICK_GELU": "return v / (T(1.0) + exp(-1.702 * v));",
    "GELU": (
        f"let c = clamp(v, T({-CLIP}), T({CLIP})); "
        f"return v / (T(1.0) + exp(-{_SLOPE!r} * (c + 0.044715 * c * c * c)));"
    ),
}


def activation_function(activation: Activation, width: int, name: str = "activate") -> str:
    """Return the WGSL of a function `name` from f32 of `width` elements, 1 or 4, to the same."""
    kind = "f32" if width == 1 else f"vec{width}<f32>"
    body = _BODIES[activation].replace("T(", f"{kind}(")
    return f"fn {name}(v: {kind}) -> {kind} {{ {body} }}\n"

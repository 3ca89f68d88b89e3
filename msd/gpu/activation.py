"""Activations in WGSL, on f32 scalars or vectors of four."""

from __future__ import annotations

from math import pi, sqrt

from msd.gpu.operations import Activation

CLIP = 10.0
"""TANH_GELU's argument is clipped to this; beyond it the sigmoid is 0 or 1 in f32 (see clip_gelu.py)."""

_SLOPE = 2 * sqrt(2 / pi)

_FAR = 15.0
"""Beyond it erfc(|v| / sqrt(2)) is 0 in f32."""

_ERFC_SLOPE = 0.3275911 / sqrt(2)
_ERFC = tuple(a / 2 for a in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))
"""Half of erfc(z) = t * (a1 + a2*t + ... + a5*t^4) * exp(-z^2) with t = 1 / (1 + 0.3275911 * z), right within
1.5e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26), for z = |v| / sqrt(2).
"""


def _horner(coefficients: tuple[float, ...]) -> str:
    """Return the polynomial in t, the constant term first, as WGSL for f32 or vectors."""
    text = f"{coefficients[-1]!r}"
    for each in reversed(coefficients[:-1]):
        text = f"{each!r} + t * ({text})"
    return text


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
        f"let a = min(abs(v), T({_FAR})); "
        f"let t = T(1.0) / (T(1.0) + {_ERFC_SLOPE!r} * a); "
        f"let q = t * ({_horner(_ERFC)}) * exp(-0.5 * a * a); "
        f"return v * select(q, T(1.0) - q, v > T(0.0));"
    ),
    "TANH_GELU": (
        f"let c = clamp(v, T({-CLIP}), T({CLIP})); "
        f"return v / (T(1.0) + exp(-{_SLOPE!r} * (c + 0.044715 * c * c * c)));"
    ),
}


def activation_function(activation: Activation, width: int, name: str = "activate") -> str:
    """Return the WGSL of a function `name` from f32 of `width` elements, 1 or 4, to the same."""
    kind = "f32" if width == 1 else f"vec{width}<f32>"
    body = _BODIES[activation].replace("T(", f"{kind}(")
    return f"fn {name}(v: {kind}) -> {kind} {{ {body} }}\n"

"""GELU as graph_rewrites/clip_gelu.py writes it."""

from math import pi, sqrt

import numpy as np

from msd.gpu.fusion.constants import reals
from msd.graph.rewrite import Build, Skip, Tensor, const, op, rule, skip, var

X = var("x")
CLIPPED = op.MUL(var("x"), const("inverse"), fused_activation_function="RELU_N1_TO_1").named("c")
SLOPE = op.ADD(op.MUL(op.MUL(CLIPPED, CLIPPED), const("cubic")), const("linear"))


@rule("canonicalize", op.MUL(var("x"), op.LOGISTIC(op.MUL(CLIPPED, SLOPE))))
def recognise_clipped_gelu(
    new: Build, x: Tensor, inverse: Tensor, c: Tensor, cubic: Tensor, linear: Tensor
) -> Tensor | Skip:
    """x * sigmoid(c*(a*M + b*c^2)), c = clip(x/M, -1, 1)  =>  GELU(x), the kernels' own clipped form"""
    return _gelu(new, x, inverse, cubic, linear, slope_of_c=True)


@rule("canonicalize", op.MUL(var("x"), op.LOGISTIC(op.MUL(var("x"), SLOPE))))
def recognise_gelu_of_clipped_slope(
    new: Build, x: Tensor, inverse: Tensor, c: Tensor, cubic: Tensor, linear: Tensor
) -> Tensor | Skip:
    """x * sigmoid(x*(a + b*c^2)), c = clip(x/M, -1, 1)  =>  GELU(x), the kernels' own clipped form"""
    return _gelu(new, x, inverse, cubic, linear, slope_of_c=False)


def _gelu(
    new: Build, x: Tensor, inverse: Tensor, cubic: Tensor, linear: Tensor, slope_of_c: bool
) -> Tensor | Skip:
    """Return GELU; the kernels clip at 10, so M must be where the sigmoid is 0 or 1 in float32."""
    if max(inverse.size, cubic.size, linear.size) > 1:
        return skip("the clip is not the same for all elements")
    one, *found = (float(reals(t).reshape(-1)[0]) for t in (inverse, linear, cubic))
    m = 1 / one if one else np.inf
    a, unit = 2 * sqrt(2 / pi), m if slope_of_c else 1
    if not np.allclose(found, [a * unit, 0.044715 * a * m**2 * unit], rtol=1e-5) or not 6 <= m <= 16:
        return skip("the polynomial is not that of GELU's tanh form")
    return new.GELU(x, approximate=True)


@rule("canonicalize", op.MUL(X, op.LOGISTIC(op.MUL(X, 1.702))))
def recognise_quick_gelu(new: Build, x: Tensor) -> Tensor:
    """x * sigmoid(1.702*x)  =>  QUICK_GELU(x)"""
    return new.QUICK_GELU(x)

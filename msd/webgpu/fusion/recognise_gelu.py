"""GELU as graph_rewrites/clip_gelu.py writes it."""

from math import pi, sqrt

import numpy as np

from msd.rewrite import Build, Skip, Tensor, const, op, rule, skip, var

X = var("x")
CLIPPED = op.MUL(var("x"), const("inverse"), fused_activation_function="RELU_N1_TO_1").named("c")
SLOPE = op.ADD(op.MUL(op.MUL(CLIPPED, CLIPPED), const("cubic")), const("linear"))


@rule("canonicalize", op.MUL(var("x"), op.LOGISTIC(op.MUL(CLIPPED, SLOPE))))
def recognise_clipped_gelu(
    new: Build, x: Tensor, inverse: Tensor, c: Tensor, cubic: Tensor, linear: Tensor
) -> Tensor | Skip:
    """x * sigmoid(c*(a*M + b*c^2)), c = clip(x/M, -1, 1)  =>  GELU(x), the kernels' own clipped form

    The kernels clip at 10, so M must be so large that the sigmoid is 0 or 1 in float32 beyond it.
    """
    if max(inverse.size, cubic.size, linear.size) > 1:
        return skip("the clip is not the same for all elements")
    m = 1 / float(inverse.values().reshape(-1)[0])
    a = 2 * sqrt(2 / pi)
    found = [float(t.values().reshape(-1)[0]) for t in (linear, cubic)]
    if not np.allclose(found, [a * m, 0.044715 * a * m**3], rtol=1e-5) or not 6 <= m <= 16:
        return skip("the polynomial is not that of GELU's tanh form")
    return new.GELU(x, approximate=True)


@rule("canonicalize", op.MUL(X, op.LOGISTIC(op.MUL(X, 1.702))))
def recognise_quick_gelu(new: Build, x: Tensor) -> Tensor:
    """x * sigmoid(1.702*x)  =>  QUICK_GELU(x)"""
    return new.QUICK_GELU(x)

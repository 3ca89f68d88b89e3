"""Clipped GELU: the argument of the tanh stays within float16's range (arXiv 2307.01193, section 3.1)."""

from math import pi, sqrt

from msd.graph.rewrite import ANY, Build, Skip, Target, Tensor, op, rule, skip, var

A = 2 * sqrt(2 / pi)


@rule("lower", op.GELU(var("x"), approximate=ANY), spells=("gelu", "clipped"))
def clip_gelu(new: Build, x: Tensor, target: Target) -> Tensor | Skip:
    """GELU(x)  =>  x * sigmoid(c*(a*M + b*c^2)), c = clip(x/M, -1, 1), a = 2*sqrt(2/pi), b = 0.044715*a*M^3

    (1 + tanh(u)) / 2 is sigmoid(2u), so this is the tanh form with fewer operators, and x/M clipped to one is
    one operator with the fused activation RELU_N1_TO_1. Beyond |x| = M = 10 the sigmoid is 0 or 1 in float32,
    so clipping changes nothing there. Without it x^3 overflows float16 at |x| = 40.
    """
    if x.dtype != "FLOAT32":
        return skip(f"{x.dtype} is not clipped")
    m = target.gelu_clip
    c = _clipped(new, x, m)
    slope = new.ADD(new.MUL(new.MUL(c, c), 0.044715 * A * m**3), A * m)
    return new.MUL(x, new.LOGISTIC(new.MUL(c, slope)))


@rule("lower", op.GELU(var("x"), approximate=ANY), spells=("gelu", "clipped_slope"))
def clip_gelu_slope(new: Build, x: Tensor, target: Target) -> Tensor | Skip:
    """GELU(x)  =>  x * sigmoid(x*(a + b*c^2)), c = clip(x/M, -1, 1), a = 2*sqrt(2/pi), b = 0.044715*a*M^2

    Only the slope is clipped, which a chain of operators computes from x, so that delegates join all of them
    to one dispatch; in `clip_gelu` two operators read c. Beyond |x| = M, where the sigmoid is 0 or 1 already,
    its argument goes on to grow in proportion to x; with M = 10 it overflows float16 at |x| = 7500.
    """
    if x.dtype != "FLOAT32":
        return skip(f"{x.dtype} is not clipped")
    m = target.gelu_clip
    c = _clipped(new, x, m)
    slope = new.ADD(new.MUL(new.MUL(c, c), 0.044715 * A * m**2), A)
    return new.MUL(x, new.LOGISTIC(new.MUL(x, slope)))


def _clipped(new: Build, x: Tensor, m: float) -> Tensor:
    return new.MUL(x, 1 / m, fused_activation_function="RELU_N1_TO_1")

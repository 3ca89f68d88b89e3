"""Clipped GELU: nothing under the tanh may leave float16's range (arXiv 2307.01193, section 3.1)."""

from math import pi, sqrt

from msd.rewrite import ANY, Build, Skip, Target, Tensor, op, rule, skip, var


@rule("lower", op.GELU(var("x"), approximate=ANY))
def clip_gelu(new: Build, x: Tensor, target: Target) -> Tensor | Skip:
    """GELU(x)  =>  x * sigmoid(c*(a + b*c^2)) with c = min(max(x, -M), M), a = 2*sqrt(2/pi), b = 0.044715*a

    (1 + tanh(u)) / 2 is sigmoid(2u), so this is the tanh form with fewer operators. Beyond |x| = M = 10 the
    sigmoid is 0 or 1 in float32, so clipping changes nothing there; without it x^3 overflows float16 at |x| = 40.
    """
    if x.dtype != "FLOAT32":
        return skip(f"{x.dtype} is not clipped")
    a = 2 * sqrt(2 / pi)
    c = new.MAXIMUM(new.MINIMUM(x, target.gelu_clip), -target.gelu_clip)
    slope = new.ADD(new.MUL(new.MUL(c, c), a * 0.044715), a)
    return new.MUL(x, new.LOGISTIC(new.MUL(c, slope)))

"""Layer normalisation as graph_rewrites/lower_normalization.py writes it."""

from msd.rewrite import Build, Skip, Tensor, any_op, const, op, rule, skip, var
from msd.webgpu.fusion.constants import per_channel, reals

X = var("x")
SMALL = op.MUL(op.SUB(X, op.MEAN(X, const("axis"), keep_dims=True)), const("factor")).named("small")
VARIANCE = op.MEAN(op.MUL(SMALL, SMALL), const("axis2"), keep_dims=True)


@rule("canonicalize", op.MUL(SMALL, op.RSQRT(op.ADD(VARIANCE, const("epsilon")))))
def recognise_layer_norm(
    new: Build, x: Tensor, axis: Tensor, factor: Tensor, small: Tensor, axis2: Tensor, epsilon: Tensor
) -> Tensor | Skip:
    """s * rsqrt(mean(s^2) + e), s = (x - m) * f, over the last axis  =>  LAYER_NORM(x), epsilon e / f^2"""
    last = {len(x.shape) - 1, -1}
    axes = [*axis.values().reshape(-1), *axis2.values().reshape(-1)]
    if len(axes) != 2 or not set(map(int, axes)) <= last or factor.size != 1 or epsilon.size != 1:
        return skip("the mean is not over the last axis")
    f = float(reals(factor).reshape(-1)[0])
    if f == 0:
        return skip("the factor is zero")
    return new.LAYER_NORM(x, None, None, epsilon=float(reals(epsilon).reshape(-1)[0]) / f**2)


@rule("canonicalize", op.MUL(any_op("LAYER_NORM", name="normal"), const("scale")))
def scale_layer_norm(new: Build, normal: Tensor, scale: Tensor) -> Tensor | Skip:
    """LAYER_NORM(x) * scale  =>  LAYER_NORM(x, scale)"""
    x, known, shift = normal.maker.inputs
    if known is not None or shift is not None or not per_channel(scale, normal.shape[-1]):
        return skip("the scale is not one number per channel, or there is one already")
    return new.again(normal.maker, x, scale, None)


@rule("canonicalize", op.ADD(any_op("LAYER_NORM", name="normal"), const("shift")))
def shift_layer_norm(new: Build, normal: Tensor, shift: Tensor) -> Tensor | Skip:
    """LAYER_NORM(x, scale) + shift  =>  LAYER_NORM(x, scale, shift)"""
    x, scale, known = normal.maker.inputs
    if known is not None or not per_channel(shift, normal.shape[-1]):
        return skip("the shift is not one number per channel, or there is one already")
    return new.again(normal.maker, x, scale, shift)

"""Layer normalisation as graph_rewrites/lower_normalization.py writes it."""

import numpy as np

from msd.gpu.fusion.constants import per_channel, reals
from msd.graph.rewrite import Build, Pat, Skip, Tensor, any_op, const, op, rule, skip, var

X = var("x")
DIFFERENCE = op.SUB(X, op.MEAN(X, const("axis"), keep_dims=True)).named("difference")
SMALL = op.MUL(DIFFERENCE, const("factor")).named("small")


def _unit(difference: Pat) -> Pat:
    variance = op.MEAN(op.MUL(difference, difference), const("axis2"), keep_dims=True)
    return op.MUL(difference, op.RSQRT(op.ADD(variance, const("epsilon"))))


@rule("canonicalize", _unit(SMALL))
def recognise_layer_norm(
    new: Build,
    x: Tensor,
    axis: Tensor,
    difference: Tensor,
    factor: Tensor,
    small: Tensor,
    axis2: Tensor,
    epsilon: Tensor,
) -> Tensor | Skip:
    """s * rsqrt(mean(s^2) + e), s = (x - m) * f, over the last axis  =>  LAYER_NORM(x), epsilon e / f^2"""
    if factor.size != 1 or not np.any(reals(factor)):
        return skip("the factor is zero, or not one number")
    return _norm(new, x, [axis, axis2], epsilon, float(reals(factor).reshape(-1)[0]))


@rule("canonicalize", _unit(DIFFERENCE))
def recognise_plain_layer_norm(
    new: Build, x: Tensor, axis: Tensor, difference: Tensor, axis2: Tensor, epsilon: Tensor
) -> Tensor | Skip:
    """d * rsqrt(mean(d^2) + e), d = x - m, over the last axis  =>  LAYER_NORM(x), epsilon e"""
    return _norm(new, x, [axis, axis2], epsilon, 1)


def _norm(new: Build, x: Tensor, axes: list[Tensor], epsilon: Tensor, factor: float) -> Tensor | Skip:
    last = {len(x.shape) - 1, -1}
    if any(axis.size != 1 or int(axis.values().reshape(-1)[0]) not in last for axis in axes):
        return skip("the mean is not over the last axis")
    if epsilon.size != 1:
        return skip("epsilon is not one number")
    shift = float(reals(epsilon).reshape(-1)[0]) / factor**2
    return new.LAYER_NORM(x, None, None, epsilon=shift) if np.isfinite(shift) else skip("epsilon is unknown")


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

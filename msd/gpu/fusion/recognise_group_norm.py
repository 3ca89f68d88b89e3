"""Group normalisation as graph_rewrites/lower_normalization.py writes it."""

import numpy as np

from msd.gpu.fusion.constants import per_channel, reals
from msd.graph.ir.weights import Array
from msd.graph.rewrite import Build, Pat, Skip, Tensor, any_op, const, op, rule, skip, var


def _pointwise(x: Pat, name: str) -> Pat:
    filters, bias = const(f"{name}_filter"), const(f"{name}_bias")
    return op.CONV_2D(x, filters, bias, padding="VALID", stride_w=1, stride_h=1)


X = var("x")
MEANS = _pointwise(_pointwise(op.MEAN(X, [1, 2], keep_dims=True), "average"), "spread")
SMALL = op.MUL(op.SUB(X, MEANS), const("factor")).named("small")


def _gain(squares: Pat) -> Pat:
    """Return the pattern of each channel's factor, of the mean of `squares` over its group."""
    variances = _pointwise(op.MEAN(squares, [1, 2], keep_dims=True), "average2")
    return _pointwise(op.RSQRT(variances), "gain")


@rule("canonicalize", op.MEAN(op.MEAN(X, [2], keep_dims=True), [1], keep_dims=True))
def join_means(new: Build, x: Tensor) -> Tensor:
    """MEAN over the width, then over the height  =>  MEAN over both"""
    return new.MEAN(x, [1, 2], keep_dims=True)


MEAN = var("mean")
DIFFERENCE = op.SUB(X, MEAN).named("difference")
SQUARES = op.SQUARED_DIFFERENCE(op.MUL(X, const("factor")), op.MUL(MEAN, const("factor2")))


@rule("canonicalize", op.MUL(DIFFERENCE, _gain(SQUARES)))
def square_one_difference(
    new: Build,
    x: Tensor,
    mean: Tensor,
    difference: Tensor,
    factor: Tensor,
    factor2: Tensor,
    average2_filter: Tensor,
    average2_bias: Tensor,
    gain_filter: Tensor,
    gain_bias: Tensor,
) -> Tensor | Skip:
    """(x - m) * gain of SQUARED_DIFFERENCE(f*x, f*m)  =>  s * (gain / f) of s * s, with s = (x - m) * f"""
    f = reals(factor).reshape(-1)
    if factor.size != 1 or factor2.size != 1 or f[0] == 0 or f[0] != reals(factor2).reshape(-1)[0]:
        return skip("the value and the mean are not made smaller by one factor")
    if not np.isfinite(gains := reals(gain_filter)).all():
        return skip("the gain is unknown")
    small = new.MUL(difference, factor)
    squares = new.MEAN(new.MUL(small, small), [1, 2], keep_dims=True)
    plain = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    deviation = new.RSQRT(new.CONV_2D(squares, average2_filter, average2_bias, **plain))
    gain = new.const(gains / f[0])
    return new.MUL(small, new.CONV_2D(deviation, gain, gain_bias, **plain))


@rule("canonicalize", op.MUL(SMALL, _gain(op.MUL(SMALL, SMALL))))
def recognise_group_norm(
    new: Build,
    x: Tensor,
    average_filter: Tensor,
    average_bias: Tensor,
    spread_filter: Tensor,
    spread_bias: Tensor,
    factor: Tensor,
    small: Tensor,
    average2_filter: Tensor,
    average2_bias: Tensor,
    gain_filter: Tensor,
    gain_bias: Tensor,
) -> Tensor | Skip:
    """(x - m) * f * s, m and s averaged over groups by 1x1 convolutions  =>  GROUP_NORM(x, scale)

    With average2 = a/n and its bias b, s is gain / sqrt(a * f^2 * variance + b): the norm's epsilon is
    b / (a * f^2) and its scale gain / sqrt(a).
    """
    groups, channels = average_filter.shape[0], x.shape[3]
    if factor.size != 1 or channels % groups:
        return skip("the groups are not equally large")
    member = np.repeat(np.eye(groups), channels // groups, axis=1)
    second = _matrix(average2_filter)
    a, f = float(second[0, 0]) * (channels // groups), float(reals(factor).reshape(-1)[0])
    gain = _matrix(gain_filter)
    shift, zeros = reals(average2_bias), (average_bias, spread_bias, gain_bias)
    right = (
        np.allclose(_matrix(average_filter), member / (channels // groups), rtol=1e-5),
        np.allclose(_matrix(spread_filter), member.T),
        np.allclose(second, member * second[0, 0], rtol=1e-5) and a > 0 and f != 0,
        not np.any(gain * (1 - member.T)),
        all(not np.any(reals(t)) for t in zeros) and np.all(shift == shift[0]),
    )
    if not all(right):
        return skip("the convolutions do not average over groups of consecutive channels")
    scale = (gain.sum(axis=1) / np.sqrt(a)).astype(np.float32)
    epsilon = float(shift[0]) / (a * f * f)
    return new.GROUP_NORM(x, new.const(scale), None, groups=groups, epsilon=epsilon)


@rule("canonicalize", op.ADD(any_op("GROUP_NORM", name="normal"), const("shift")))
def add_shift(new: Build, normal: Tensor, shift: Tensor) -> Tensor | Skip:
    """GROUP_NORM(x, scale) + shift  =>  GROUP_NORM(x, scale, shift)"""
    maker = normal.maker
    if maker.inputs[2] is not None or maker.attrs["activation"] != "NONE":
        return skip("it has a shift already")
    if not per_channel(shift, normal.shape[-1]):
        return skip("the shift is not one number per channel")
    return new.again(maker, maker.inputs[0], maker.inputs[1], shift)


@rule("canonicalize", op.SILU(any_op("GROUP_NORM", name="normal")))
def fuse_silu(new: Build, normal: Tensor) -> Tensor | Skip:
    """SILU(GROUP_NORM(x))  =>  GROUP_NORM(x) with the activation"""
    if normal.maker.attrs["activation"] != "NONE":
        return skip("it has an activation already")
    return new.again(normal.maker, *normal.maker.inputs, activation="SILU")


def _matrix(filters: Tensor) -> Array:
    return reals(filters).reshape(filters.shape[0], -1).astype(np.float64)

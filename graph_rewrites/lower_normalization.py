"""Group and layer normalisation as Keras writes them, at rank 4, broadcast-free and safe in float16."""

from functools import cache
from math import prod

import numpy as np

from msd.rewrite import ANY, Build, Pat, Skip, Tensor, Weights, const, op, rule, skip, var

SCALE = 1 / 8
"""The factor on values before they are squared: in float16 a square overflows at 256."""

GAIN = 2
"""The factor on a group's deviation; without it float16 rounds an epsilon of 1e-6 to zero."""

X = var("x")
GROUPED = op.RESHAPE(X, const("grouping"), new_shape=ANY).named("grouped")


def _normalized(x: Pat) -> Pat:
    """Return the pattern x*s + (-mean*s + beta) with s = rsqrt(variance + eps) * gamma, as in keras.ops."""
    mean = op.MEAN(x, const("axes"), keep_dims=True).named("mean")
    variance = op.MEAN(op.SQUARED_DIFFERENCE(x, mean), const("axes2"), keep_dims=True)
    scale = op.RSQRT(variance + const("eps")) * const("gamma")
    return x * scale + (op.NEG(mean) * scale + const("beta"))


@cache
def _average(channels: int, groups: int, gain: float = 1) -> Weights:
    """Return the filter (groups, 1, 1, channels) that averages the channels of each group, times `gain`."""
    member = np.repeat(np.eye(groups, dtype=np.float32), channels // groups, axis=1)
    return Weights.of((member * np.float32(gain / (channels // groups))).reshape(groups, 1, 1, channels))


@cache
def _spread(channels: int, groups: int, gain: float = 1) -> Weights:
    """Return the filter (channels, 1, 1, groups) that copies a group's value times `gain` to its channels."""
    member = np.repeat(np.eye(groups, dtype=np.float32), channels // groups, axis=0)
    return Weights.of((member * np.float32(gain)).reshape(channels, 1, 1, groups))


def _pointwise(new: Build, x: Tensor, weights: Weights, bias: float = 0.0) -> Tensor:
    constant = np.full(weights.shape[0], bias, np.float32)
    return new.CONV_2D(x, new.const(weights), new.const(constant), padding="VALID", stride_h=1, stride_w=1)


@rule("fuse", op.RESHAPE(_normalized(GROUPED), const("ungrouping"), new_shape=ANY).named("y"))
def lower_group_norm(
    new: Build,
    x: Tensor,
    grouped: Tensor,
    grouping: Tensor,
    mean: Tensor,
    axes: Tensor,
    axes2: Tensor,
    eps: Tensor,
    gamma: Tensor,
    beta: Tensor,
    ungrouping: Tensor,
    y: Tensor,
) -> Tensor | Skip:
    """5-D group normalisation  =>  (x - m) * s + beta with m and s of shape (B, 1, 1, C)

    Means are taken over height and width first, then over the channels of a group by a 1x1 convolution; a
    second one spreads them back over the channels, for s = rsqrt(v + eps) * gamma. No large tensor is
    reshaped or broadcast (arXiv 2307.01193, section 3.1).
    """
    if len(x.shape) != 4 or len(grouped.shape) != 5 or x.shape[:3] != grouped.shape[:3]:
        return skip(f"{list(x.shape)} by groups {list(grouped.shape)} is not a channels-last image")
    groups, channels = grouped.shape[3], x.shape[3]
    if _axes(axes, 5) != [1, 2, 4] or _axes(axes2, 5) != [1, 2, 4]:
        return skip("the mean is not over height, width and the channels of a group")
    if not _per_channel(grouped.shape[3:], gamma, beta) or eps.size != 1:
        return skip("gamma or beta is not one number per channel, or epsilon is not one number")
    pooled = _pointwise(new, new.MEAN(x, [1, 2], keep_dims=True), _average(channels, groups))
    small = new.MUL(new.SUB(x, _pointwise(new, pooled, _spread(channels, groups))), SCALE)
    squares = new.MEAN(new.MUL(small, small), [1, 2], keep_dims=True)
    epsilon = float(eps.values().reshape(-1)[0]) * (SCALE * GAIN) ** 2
    deviation = new.RSQRT(_pointwise(new, squares, _average(channels, groups, GAIN**2), epsilon))
    spread = _spread(channels, groups, GAIN)
    scaled = spread.combine("* gamma", np.multiply, gamma.weights.reshape((channels, 1, 1, 1)))
    normal = new.MUL(small, _pointwise(new, deviation, scaled.as_exact()))
    shifted = new.ADD(normal, new.const(beta.weights.reshape((1, 1, 1, channels)), beta.name))
    return shifted if x.shape == y.shape else new.RESHAPE(shifted, list(y.shape))


@rule("fuse", _normalized(X).named("y"))
def lower_layer_norm(
    new: Build,
    x: Tensor,
    mean: Tensor,
    axes: Tensor,
    axes2: Tensor,
    eps: Tensor,
    gamma: Tensor,
    beta: Tensor,
    y: Tensor,
) -> Tensor | Skip:
    """layer normalisation  =>  (x - m) * rsqrt(v + eps) * gamma + beta with m and v over the last axis"""
    rank, channels = len(x.shape), x.shape[-1]
    if _axes(axes, rank) != [rank - 1] or _axes(axes2, rank) != [rank - 1]:
        return skip("the mean is not over the last axis")
    if not _per_channel((channels,), gamma, beta) or eps.size != 1 or x.shape != y.shape:
        return skip("gamma or beta is not one number per channel, or epsilon is not one number")
    small = new.MUL(new.SUB(x, new.MEAN(x, [rank - 1], keep_dims=True)), SCALE)
    variance = new.MEAN(new.MUL(small, small), [rank - 1], keep_dims=True)
    deviation = new.RSQRT(new.ADD(variance, float(eps.values().reshape(-1)[0]) * SCALE**2))
    scaled = new.MUL(new.MUL(small, deviation), new.const(gamma.weights.reshape((channels,)), gamma.name))
    return new.ADD(scaled, new.const(beta.weights.reshape((channels,)), beta.name))


def _per_channel(last: tuple[int, ...], *constants: Tensor) -> bool:
    """Whether each constant has one number per element of the axes `last`, and no other axes."""
    return all(c.size == prod(last) and c.shape[-len(last) :] == last for c in constants)


def _axes(axes: Tensor, rank: int) -> list[int]:
    return sorted(int(a) % rank for a in axes.values().reshape(-1))

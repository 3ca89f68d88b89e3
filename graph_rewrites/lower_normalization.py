"""Group and layer normalisation as Keras writes them, at rank 4, broadcast-free and safe in float16."""

from functools import cache, partial
from math import prod

import numpy as np

from msd.graph.rewrite import ANY, Build, Pat, Skip, Target, Tensor, Weights, const, op, rule, skip, var

SCALE = 1 / 8
"""The factor on values before they are squared: in float16 a square overflows at 256."""

GAIN = 2
"""The factor on a group's deviation; without it float16 rounds an epsilon of 1e-6 to zero."""

LARGE = 64 * 64
"""The places beyond which a mean over both axes at once has too few work items to fill a large GPU."""

STEP = 8
"""The most places a side that one depthwise convolution averages; its filters have that squared a channel."""

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


def _small_difference(new: Build, x: Tensor, center: Tensor) -> Tensor:
    return new.MUL(new.SUB(x, center), SCALE)


def _squares(new: Build, x: Tensor, center: Tensor, small: Tensor | None) -> Tensor:
    """Return the squares of differences from the centre times SCALE, of `small` if these exist.

    Otherwise the operators on `x` stand in a row, with all else that they read before them, so that delegates
    join them.
    """
    if small:
        return new.MUL(small, small)
    small_center = new.MUL(center, SCALE)
    return new.SQUARED_DIFFERENCE(new.MUL(x, SCALE), small_center)


def _group_mean(new: Build, x: Tensor, average: Weights, form: str, bias: float = 0.0) -> Tensor:
    """Return the means of groups of channels plus `bias`, of shape (B, 1, 1, groups)."""
    if form == "groups_first":
        return new.MEAN(_pointwise(new, x, average, bias), [1, 2], keep_dims=True)
    return _pointwise(new, PLACE_MEANS[form](new, x), average, bias)


def _mean(new: Build, x: Tensor) -> Tensor:
    return new.MEAN(x, [1, 2], keep_dims=True)


def _rows_first(new: Build, x: Tensor) -> Tensor:
    return new.MEAN(new.MEAN(x, [2], keep_dims=True), [1], keep_dims=True)


def _large_rows_first(new: Build, x: Tensor) -> Tensor:
    _, height, width, _ = x.shape
    return (_rows_first if height * width > LARGE else _mean)(new, x)


def _average_pool(new: Build, x: Tensor) -> Tensor:
    _, height, width, _ = x.shape
    return new.AVERAGE_POOL_2D(
        x, padding="VALID", stride_h=1, stride_w=1, filter_height=height, filter_width=width
    )


def _depthwise_steps(new: Build, x: Tensor) -> Tensor:
    """Return the means over height and width, by depthwise convolutions of at most STEP places a side."""
    while x.shape[1:3] != (1, 1):
        height, width = map(_step, x.shape[1:3])
        each = np.full((1, height, width, x.shape[3]), 1 / (height * width), np.float32)
        filters, bias = new.const(Weights.of(each)), new.const(np.zeros(x.shape[3], np.float32))
        x = new.DEPTHWISE_CONV_2D(
            x, filters, bias, padding="VALID", stride_h=height, stride_w=width, depth_multiplier=1
        )
    return x


def _step(side: int) -> int:
    """Return the largest divisor of a side from 2 to STEP; the side itself where there is none."""
    return next((n for n in range(min(STEP, side), 1, -1) if side % n == 0), side)


PLACE_MEANS = {
    "mean": _mean,
    "rows_first": _rows_first,
    "large_rows_first": _large_rows_first,
    "average_pool": _average_pool,
    "depthwise": _depthwise_steps,
}


@rule("fuse", op.RESHAPE(_normalized(GROUPED), const("ungrouping"), new_shape=ANY).named("y"))
def lower_group_norm(
    new: Build,
    x: Tensor,
    grouped: Tensor,
    axes: Tensor,
    axes2: Tensor,
    eps: Tensor,
    gamma: Tensor,
    beta: Tensor,
    y: Tensor,
    target: Target,
) -> Tensor | Skip:
    """5-D group normalisation  =>  (x - m) * s + beta with m and s of shape (B, 1, 1, C)

    Means are taken over height and width, and over the channels of a group by a 1x1 convolution; a second
    one spreads them back over the channels, for s = rsqrt(v + eps) * gamma. No large tensor is reshaped or
    broadcast (arXiv 2307.01193, section 3.1).
    """
    if len(x.shape) != 4 or len(grouped.shape) != 5 or x.shape[:3] != grouped.shape[:3]:
        return skip(f"{list(x.shape)} by groups {list(grouped.shape)} is not a channels-last image")
    groups, channels = grouped.shape[3], x.shape[3]
    if _axes(axes, 5) != [1, 2, 4] or _axes(axes2, 5) != [1, 2, 4]:
        return skip("the mean is not over height, width and the channels of a group")
    if not _per_channel(grouped.shape[3:], gamma, beta) or eps.size != 1:
        return skip("gamma or beta is not one number per channel, or epsilon is not one number")
    mean_of = partial(_group_mean, new, form=target.spelling["group_mean"])
    center = _pointwise(new, mean_of(x, _average(channels, groups)), _spread(channels, groups))
    small = _small_difference(new, x, center) if target.spelling["group_variance"] == "squares" else None
    epsilon = float(eps.values().reshape(-1)[0]) * (SCALE * GAIN) ** 2
    squares = _squares(new, x, center, small)
    deviation = new.RSQRT(mean_of(squares, _average(channels, groups, GAIN**2), bias=epsilon))
    spread = _spread(channels, groups, GAIN if small else GAIN * SCALE)
    scaled = spread.combine("* gamma", np.multiply, gamma.weights.reshape((channels, 1, 1, 1)))
    factor = _pointwise(new, deviation, scaled.as_exact())
    normal = new.MUL(small or new.SUB(x, center), factor)
    shifted = new.ADD(normal, new.const(beta.weights.reshape((1, 1, 1, channels)), beta.name))
    return shifted if x.shape == y.shape else new.RESHAPE(shifted, list(y.shape))


@rule("fuse", _normalized(X).named("y"), spells=("layer_norm", "scaled"))
def lower_layer_norm(
    new: Build, x: Tensor, axes: Tensor, axes2: Tensor, eps: Tensor, gamma: Tensor, beta: Tensor, y: Tensor
) -> Tensor | Skip:
    """layer normalisation  =>  (x - m) * rsqrt(v + eps) * gamma + beta with m and v over the last axis

    The difference is made smaller before it is squared, which float16 can then hold.
    """
    if refusal := _no_layer_norm(x, axes, axes2, eps, gamma, beta, y):
        return refusal
    small = new.MUL(new.SUB(x, _last_mean(new, x)), SCALE)
    return _affine(new, _unit(new, small, eps, SCALE**2), gamma, beta)


@rule("fuse", _normalized(X).named("y"), spells=("layer_norm", "plain"))
def lower_plain_layer_norm(
    new: Build, x: Tensor, axes: Tensor, axes2: Tensor, eps: Tensor, gamma: Tensor, beta: Tensor, y: Tensor
) -> Tensor | Skip:
    """layer normalisation  =>  (x - m) * rsqrt(v + eps) * gamma + beta, as delegates know it

    Both delegates compute MEAN to MUL in one dispatch (tasks/mean_stddev_normalization.cc). Where one does
    not, squares of differences beyond 255 overflow float16.
    """
    if refusal := _no_layer_norm(x, axes, axes2, eps, gamma, beta, y):
        return refusal
    return _affine(new, _unit(new, new.SUB(x, _last_mean(new, x)), eps), gamma, beta)


def _no_layer_norm(
    x: Tensor, axes: Tensor, axes2: Tensor, eps: Tensor, gamma: Tensor, beta: Tensor, y: Tensor
) -> Skip | None:
    """Return why it is no layer normalisation over the last axis; None if it is one."""
    rank = len(x.shape)
    if _axes(axes, rank) != [rank - 1] or _axes(axes2, rank) != [rank - 1]:
        return skip("the mean is not over the last axis")
    if not _per_channel(x.shape[-1:], gamma, beta) or eps.size != 1 or x.shape != y.shape:
        return skip("gamma or beta is not one number per channel, or epsilon is not one number")
    return None


def _last_mean(new: Build, x: Tensor) -> Tensor:
    return new.MEAN(x, [len(x.shape) - 1], keep_dims=True)


def _unit(new: Build, difference: Tensor, eps: Tensor, scale: float = 1) -> Tensor:
    """Return the difference from the mean over its deviation, with epsilon times `scale`."""
    variance = _last_mean(new, new.MUL(difference, difference))
    deviation = new.RSQRT(new.ADD(variance, float(eps.values().reshape(-1)[0]) * scale))
    return new.MUL(difference, deviation)


def _affine(new: Build, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    scaled = new.MUL(x, new.const(gamma.weights.reshape(x.shape[-1:]), gamma.name))
    return new.ADD(scaled, new.const(beta.weights.reshape(x.shape[-1:]), beta.name))


def _per_channel(last: tuple[int, ...], *constants: Tensor) -> bool:
    """Whether each constant has one number per element of the axes `last`, and no other axes."""
    return all(c.size == prod(last) and c.shape[-len(last) :] == last for c in constants)


def _axes(axes: Tensor, rank: int) -> list[int]:
    return sorted(int(a) % rank for a in axes.values().reshape(-1))

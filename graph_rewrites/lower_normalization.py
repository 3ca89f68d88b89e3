"""Group and layer normalisation as Keras spells them, made broadcast-free, of rank 4 and safe in float16."""

from functools import cache

import numpy as np

from msd.rewrite import ANY, Build, Skip, Tensor, Weights, const, op, rule, skip, var


def _normalized(x):
    """x*s + (-mean*s + beta) with s = rsqrt(variance + eps) * gamma, as keras.ops computes it."""
    mean = op.MEAN(x, const("axes"), keep_dims=True).named("mean")
    variance = op.MEAN(op.SQUARED_DIFFERENCE(x, mean), const("axes2"), keep_dims=True)
    scale = op.RSQRT(variance + const("eps")) * const("gamma")
    return x * scale + (op.NEG(mean) * scale + const("beta"))


X = var("x")
GROUPED = op.RESHAPE(X, const("grouping"), new_shape=ANY).named("grouped")


@cache
def _pooling(channels: int, groups: int) -> tuple[Weights, Weights]:
    """Return filters that average the channels of each group, and that hand a group's number to its channels."""
    member = np.repeat(np.eye(groups, dtype=np.float32), channels // groups, axis=1)
    average = member / np.float32(channels // groups)
    return (
        Weights.of(average.reshape(groups, 1, 1, channels)),
        Weights.of(np.ascontiguousarray(member.T).reshape(channels, 1, 1, groups)),
    )


def _group_mean(new: Build, x: Tensor, groups: int, bias: float) -> Tensor:
    """Return (B, 1, 1, C): for every channel the mean over its group and all places, plus `bias`."""
    channels = x.shape[-1]
    average, spread = (new.const(w) for w in _pooling(channels, groups))
    per_channel = new.MEAN(x, [1, 2], keep_dims=True)
    stride = {"stride_h": 1, "stride_w": 1, "padding": "VALID"}
    per_group = new.CONV_2D(per_channel, average, new.const(np.zeros(groups, np.float32)), **stride)
    return new.CONV_2D(per_group, spread, new.const(np.full(channels, bias, np.float32)), **stride)


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
    """5-D group normalisation  =>  (x - m) * rsqrt(v + eps) * gamma + beta with m and v of shape (B, 1, 1, C)

    Means go over height and width first, where neighbours lie side by side, then over the channels of a group
    by a 1x1 convolution; a second one hands them back to the channels. Nothing large is reshaped.
    """
    if len(x.shape) != 4 or len(grouped.shape) != 5:
        return skip(f"{list(x.shape)} by groups {list(grouped.shape)} is not a channels-last picture")
    groups, width = grouped.shape[3:]
    if _axes(axes, 5) != [1, 2, 4] or _axes(axes2, 5) != [1, 2, 4]:
        return skip("the mean is not over height, width and the channels of a group")
    if gamma.size != groups * width or beta.size != groups * width:
        return skip("gamma or beta is not one number per channel")
    flat = (1, 1, 1, groups * width)
    centred = new.SUB(x, _group_mean(new, x, groups, 0.0))
    variance = _group_mean(new, new.MUL(centred, centred), groups, float(eps.values().reshape(-1)[0]))
    scale = new.MUL(new.RSQRT(variance), new.const(gamma.weights.reshape(flat), gamma.name))
    normal = new.ADD(new.MUL(centred, scale), new.const(beta.weights.reshape(flat), beta.name))
    return normal if x.shape == y.shape else new.RESHAPE(normal, list(y.shape))


@rule("fuse", _normalized(X))
def lower_layer_norm(
    new: Build, x: Tensor, mean: Tensor, axes: Tensor, axes2: Tensor, eps: Tensor, gamma: Tensor, beta: Tensor
) -> Tensor | Skip:
    """layer normalisation  =>  (x - m) * rsqrt(v + eps) * gamma + beta with m and v over the last axis"""
    rank = len(x.shape)
    if _axes(axes, rank) != [rank - 1] or _axes(axes2, rank) != [rank - 1]:
        return skip("the mean is not over the last axis")
    if gamma.size != x.shape[-1] or beta.size != x.shape[-1]:
        return skip("gamma or beta is not one number per channel")
    centred = new.SUB(x, new.MEAN(x, [rank - 1], keep_dims=True))
    variance = new.MEAN(new.MUL(centred, centred), [rank - 1], keep_dims=True)
    normal = new.MUL(centred, new.RSQRT(new.ADD(variance, eps)))
    flat = (x.shape[-1],)
    scaled = new.MUL(normal, new.const(gamma.weights.reshape(flat), gamma.name))
    return new.ADD(scaled, new.const(beta.weights.reshape(flat), beta.name))


def _axes(axes: Tensor, rank: int) -> list[int]:
    return sorted(int(a) % rank for a in axes.values().reshape(-1))

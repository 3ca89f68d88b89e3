"""The blocks that the networks share, as functions of symbolic tensors, channels last.

Each layer has the name of its module in the checkpoint, so that a variable's path is the tensor's name
except for the last word ("mid_block.attentions.0.norm/gamma" is "mid_block.attentions.0.norm.weight").
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

Tensor = Any


def dense(x: Tensor, units: int, name: str, bias: bool = True) -> Tensor:
    """Return `x` (…, in) through a linear layer: (…, units)."""
    return keras.layers.Dense(units, use_bias=bias, name=name)(x)


def conv(x: Tensor, channels: int, name: str, kernel: int = 3, bias: bool = True) -> Tensor:
    """Return `x` (batch, height, width, in) convolved at the same size: (batch, height, width, channels)."""
    return keras.layers.Conv2D(channels, kernel, padding="same", use_bias=bias, name=name)(x)


def group_norm(x: Tensor, groups: int, epsilon: float, name: str) -> Tensor:
    """Return `x` normalised over height, width and the channels of each group (Wu & He, arXiv:1803.08494)."""
    return keras.layers.GroupNormalization(groups, epsilon=epsilon, name=name)(x)


def layer_norm(x: Tensor, epsilon: float, name: str) -> Tensor:
    """Return `x` normalised over its last axis (Ba et al., arXiv:1607.06450)."""
    return keras.layers.LayerNormalization(epsilon=epsilon, name=name)(x)


def downsample(x: Tensor, name: str) -> Tensor:
    """Return `x` at half height and width, padded by one pixel on every side as in torch."""
    x = keras.layers.ZeroPadding2D(1, name=f"{name}.pad")(x)
    return keras.layers.Conv2D(x.shape[-1], 3, strides=2, name=f"{name}.conv")(x)


def upsample(x: Tensor, name: str) -> Tensor:
    """Return `x` at twice the height and width: nearest neighbour, then a convolution."""
    x = keras.layers.UpSampling2D(2, interpolation="nearest", name=f"{name}.nearest")(x)
    return conv(x, x.shape[-1], f"{name}.conv")


def resnet(x: Tensor, time: Tensor | None, channels: int, groups: int, epsilon: float, name: str) -> Tensor:
    """Return a residual block's output; `time` (batch, width), if any, is added between its convolutions."""
    hidden = conv(ops.silu(group_norm(x, groups, epsilon, f"{name}.norm1")), channels, f"{name}.conv1")
    if time is not None:
        shift = dense(ops.silu(time), channels, f"{name}.time_emb_proj")
        hidden = hidden + ops.reshape(shift, (-1, 1, 1, channels))
    hidden = conv(ops.silu(group_norm(hidden, groups, epsilon, f"{name}.norm2")), channels, f"{name}.conv2")
    if x.shape[-1] != channels:
        x = conv(x, channels, f"{name}.conv_shortcut", kernel=1)
    return x + hidden


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """Return softmax(Q Kᵀ / √d + mask) V (Vaswani et al., arXiv:1706.03762) for `heads` concatenated heads.

    `query` is (batch, n, width), `key` and `value` (batch, m, width), `mask` (n, m); the result is
    (batch, n, width).
    """
    size = query.shape[-1] // heads
    # Scale before the product: unscaled, SD 2.1's scores overflow float16.
    scores = ops.matmul(_split(query * size**-0.5, heads), ops.transpose(_split(key, heads), (0, 1, 3, 2)))
    if mask is not None:
        scores = scores + mask
    mixed = ops.matmul(ops.softmax(scores, axis=-1), _split(value, heads))
    return ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), query.shape)


def spatial_attention(x: Tensor, groups: int, epsilon: float, name: str) -> Tensor:
    """Return `x` (batch, height, width, channels) plus one head of self attention over its cells."""
    batch, height, width, channels = x.shape
    normed = group_norm(x, groups, epsilon, f"{name}.group_norm")
    cells = ops.reshape(normed, (batch, height * width, channels))
    query, key, value = (dense(cells, channels, f"{name}.to_{part}") for part in ("q", "k", "v"))
    mixed = dense(attend(query, key, value, heads=1), channels, f"{name}.to_out.0")
    return x + ops.reshape(mixed, x.shape)


def middle(x: Tensor, groups: int, epsilon: float, attends: bool, name: str) -> Tensor:
    """Return `x` through the middle of an autoencoder: two residual blocks, with or without attention."""
    channels = x.shape[-1]
    x = resnet(x, None, channels, groups, epsilon, f"{name}.resnets.0")
    if attends:
        x = spatial_attention(x, groups, epsilon, f"{name}.attentions.0")
    return resnet(x, None, channels, groups, epsilon, f"{name}.resnets.1")


def _split(x: Tensor, heads: int) -> Tensor:
    """Return `x` (batch, n, width) as (batch, heads, n, width / heads)."""
    batch, length, width = x.shape
    return ops.transpose(ops.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))

"""Small graphs of each kind that can be pruned, spelt as TensorFlow's converter spells them."""

from __future__ import annotations

from typing import Any

import numpy as np

from msd.graph.ir import Build, Tensor
from msd.graph.ir.weights import Array, Weights
from tests.harness import conv, normal


def learnt(new: Build, values: Array, name: str) -> Tensor:
    """Return a constant that counts as learnt, from the checkpoint's tensor `name`.weight."""
    data = Weights(values.shape, values.dtype, lambda: values, name, sources=(f"{name}.weight",))
    return new.const(data, name)


def dense(new: Build, x: Tensor, width: int, name: str, seed: int = 0) -> Tensor:
    """Return `x` by a learnt matrix, plus a bias."""
    rows = x.shape[-1]
    matrix = learnt(new, normal(rows, width, seed=seed) * np.float32(rows**-0.5), name)
    return new.ADD(new.BATCH_MATMUL(x, matrix), learnt(new, normal(width, seed=seed + 1), f"{name}.bias"))


def convolution(new: Build, x: Tensor, zeros: Tensor, name: str, seed: int = 0) -> Tensor:
    """Return `x` convolved with a learnt filter (h, w, in, out), its bias added later: all share `zeros`."""
    width = zeros.size
    values = normal(3, 3, x.shape[3], width, seed=seed) * np.float32(0.2)
    turned = new.TRANSPOSE(learnt(new, values, name), [3, 0, 1, 2])
    y = new.CONV_2D(x, turned, zeros, padding="SAME", stride_h=1, stride_w=1)
    return new.ADD(y, learnt(new, normal(width, seed=seed + 1), f"{name}.bias"))


def group_norm(new: Build, x: Tensor, groups: int, name: str, seed: int = 0) -> Tensor:
    """Return `x` normalised over height, width and the channels of each group, with learnt gamma and beta."""
    n, h, w, c = x.shape
    split = (1, 1, 1, groups, c // groups)
    gamma = new.RESHAPE(learnt(new, normal(c, seed=seed) + np.float32(1), f"{name}.gamma"), list(split))
    beta = new.RESHAPE(learnt(new, normal(c, seed=seed + 1), f"{name}.beta"), list(split))
    grouped = new.RESHAPE(x, [-1, h, w, groups, c // groups])
    mean = new.MEAN(grouped, [1, 2, 4], keep_dims=True)
    variance = new.MEAN(new.SQUARE(new.SUB(grouped, mean)), [1, 2, 4], keep_dims=True)
    scale = new.MUL(new.RSQRT(new.ADD(variance, 1e-5)), gamma)
    shift = new.ADD(new.MUL(new.NEG(mean), scale), beta)
    return new.RESHAPE(new.ADD(new.MUL(grouped, scale), shift), [n, h, w, c])


def silu(new: Build, x: Tensor) -> Tensor:
    """Return x · sigmoid(x)."""
    return new.MUL(x, new.LOGISTIC(x))


def resnet(new: Build, x: Tensor, time: Tensor, groups: int) -> Tensor:
    """Return a residual block, as wide inside as outside, with a time embedding (1, t) added inside."""
    width = x.shape[3]
    zeros = new.const(np.zeros(width, np.float32))
    hidden = convolution(new, silu(new, x), zeros, "block.conv1", 10)
    shift = new.RESHAPE(dense(new, time, width, "block.time_emb_proj", 20), [width])
    hidden = silu(new, group_norm(new, new.ADD(hidden, shift), groups, "block.norm2", 30))
    return new.ADD(x, convolution(new, hidden, zeros, "block.conv2", 40))


def geglu(new: Build, x: Tensor, hidden: int) -> Tensor:
    """Return a gated feed-forward net, residually."""
    value, gate = new.SPLIT(-1, dense(new, x, 2 * hidden, "ff.net.0.proj", 10), 2)
    return new.ADD(x, dense(new, new.MUL(value, new.GELU(gate)), x.shape[-1], "ff.net.2", 20))


def sliced_geglu(new: Build, x: Tensor, hidden: int) -> Tensor:
    """The same, with slices for the parts."""
    both = dense(new, x, 2 * hidden, "ff.net.0.proj", 10)
    size = [*x.shape[:-1], hidden]
    value, gate = new.SLICE(both, [0, 0, 0], size), new.SLICE(both, [0, 0, hidden], size)
    return new.ADD(x, dense(new, new.MUL(value, new.GELU(gate)), x.shape[-1], "ff.net.2", 20))


def attention(new: Build, x: Tensor, context: Tensor, heads: int, size: int, turned: bool = True) -> Tensor:
    """Return attention to `context`, residually; `turned`: the keys are transposed, not the product."""

    def split(t: Tensor, order: list[int]) -> Tensor:
        return new.TRANSPOSE(new.RESHAPE(t, [1, t.shape[1], heads, size]), order)

    key = dense(new, context, heads * size, "attn.to_k", 10)
    query = new.MUL(dense(new, x, heads * size, "attn.to_q", 20), size**-0.5)
    value = split(dense(new, context, heads * size, "attn.to_v", 30), [0, 2, 1, 3])
    keys = split(key, [0, 2, 3, 1] if turned else [0, 2, 1, 3])
    scores = new.BATCH_MATMUL(split(query, [0, 2, 1, 3]), keys, adj_y=not turned)
    mixed = new.TRANSPOSE(new.BATCH_MATMUL(new.SOFTMAX(scores), value), [0, 2, 1, 3])
    joined = new.RESHAPE(mixed, [1, x.shape[1], heads * size])
    return new.ADD(x, dense(new, joined, x.shape[-1], "attn.to_out.0", 40))


def two_convolutions(new: Build, x: Tensor, width: int, **attrs: Any) -> Tensor:
    """Return conv, RELU, upsampling, padding and a second conv: no normalisation in between."""
    hidden = new.RELU(conv(new, x, width, (3, 3)))
    _, h, w, _ = hidden.shape
    wider = new.RESIZE_NEAREST_NEIGHBOR(hidden, [2 * h, 2 * w])
    padded = new.PAD(wider, [[0, 0], [1, 0], [0, 2], [0, 0]])
    return conv(new, padded, 5, (3, 3), **attrs)

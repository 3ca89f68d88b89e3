"""Small blocks of the three networks, operator by operator as a traced Keras model spells them."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from msd.graph.ir import Build, Graph, Op, Tensor
from tests.harness import Ints, build, conv, normal

CHANNELS, HEADS, WIDTH, GROUPS = 12, 3, 4, 4
LENGTH, CONTEXT = 5, 7
HEIGHT, BREADTH = 4, 6


class Spelling:
    """Layers as Keras writes them in TensorFlow Lite's operators; every weight has its own seed."""

    def __init__(self, new: Build) -> None:
        self.new, self.seed = new, 100

    def weights(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> Tensor:
        self.seed += 1
        return self.new.const(offset + scale * normal(*shape, seed=self.seed))

    def dense(self, x: Tensor, units: int, bias: bool = True) -> Tensor:
        y = self.new.BATCH_MATMUL(x, self.weights(x.shape[-1], units, scale=x.shape[-1] ** -0.5))
        return self.new.ADD(y, self.weights(units, scale=0.1)) if bias else y

    def normal(self, x: Tensor, axes: list[int], constants: tuple[int, ...], eps: float) -> Tensor:
        new = self.new
        gamma, beta = self.weights(*constants, scale=0.1, offset=1), self.weights(*constants, scale=0.1)
        mean = new.MEAN(x, axes, keep_dims=True)
        variance = new.MEAN(new.SQUARED_DIFFERENCE(x, mean), axes, keep_dims=True)
        scale = new.MUL(new.RSQRT(new.ADD(variance, eps)), gamma)
        return new.ADD(new.MUL(x, scale), new.ADD(new.MUL(new.NEG(mean), scale), beta))

    def layer_norm(self, x: Tensor) -> Tensor:
        return self.normal(x, [-1], x.shape[-1:], 1e-5)

    def group_norm(self, x: Tensor) -> Tensor:
        inner = (GROUPS, x.shape[3] // GROUPS)
        grouped = self.new.RESHAPE(x, [*x.shape[:3], *inner])
        return self.new.RESHAPE(self.normal(grouped, [1, 2, 4], (1, 1, 1, *inner), 1e-6), list(x.shape))

    def silu(self, x: Tensor) -> Tensor:
        return self.new.MUL(x, self.new.LOGISTIC(x))

    def heads(self, x: Tensor, perm: list[int]) -> Tensor:
        batch, length, _ = x.shape
        return self.new.TRANSPOSE(self.new.RESHAPE(x, [batch, length, HEADS, WIDTH]), perm)

    def attention(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        new, bias = self.new, mask is not None
        q = self.heads(new.MUL(self.dense(x, CHANNELS, bias), WIDTH**-0.5), [0, 2, 1, 3])
        k = self.heads(self.dense(context, CHANNELS, bias), [0, 2, 3, 1])
        v = self.heads(self.dense(context, CHANNELS, bias), [0, 2, 1, 3])
        scores = new.BATCH_MATMUL(q, k)
        mixed = new.BATCH_MATMUL(new.SOFTMAX(new.ADD(scores, mask) if mask else scores, beta=1.0), v)
        return self.dense(new.RESHAPE(new.TRANSPOSE(mixed, [0, 2, 1, 3]), list(x.shape)), CHANNELS)

    def flat_attention(self, x: Tensor) -> Tensor:
        """Heads on the batch axis, rank 3, scores scaled afterwards: as keras-cv has it."""
        new, (batch, length, _) = self.new, x.shape
        flat = [batch * HEADS, length, WIDTH]
        q, k, v = (new.RESHAPE(self.heads(self.dense(x, CHANNELS), [0, 2, 1, 3]), flat) for _ in range(3))
        scores = new.MUL(new.BATCH_MATMUL(q, k, adj_y=True), WIDTH**-0.5)
        mixed = new.RESHAPE(new.BATCH_MATMUL(new.SOFTMAX(scores, beta=1.0), v), [batch, HEADS, length, WIDTH])
        return self.dense(new.RESHAPE(new.TRANSPOSE(mixed, [0, 2, 1, 3]), list(x.shape)), CHANNELS)

    def geglu(self, x: Tensor) -> Tensor:
        new = self.new
        value, gate = new.SPLIT(-1, self.dense(x, 8 * CHANNELS), 2)
        inner = new.ADD(1.0, new.MUL(0.044715, new.MUL(gate, gate)))
        slope = new.ADD(1.0, new.TANH(new.MUL(new.MUL(sqrt(2 / pi), gate), inner)))
        return self.dense(new.MUL(new.MUL(new.MUL(0.5, value), gate), slope), CHANNELS)

    def gelu(self, x: Tensor) -> Tensor:
        new = self.new
        cube = new.MUL(x, new.MUL(x, x))
        slope = new.MUL(sqrt(2 / pi), new.ADD(x, new.MUL(0.044715, cube)))
        return new.MUL(new.MUL(0.5, x), new.ADD(1.0, new.TANH(slope)))

    def upsample(self, x: Tensor) -> Tensor:
        new, (n, h, w, c) = self.new, x.shape
        rows = new.TILE(new.RESHAPE(x, [n, h, 1, w, c]), [1, 1, 2, 1, 1])
        both = new.TILE(new.RESHAPE(rows, [n, 2 * h, w, 1, c]), [1, 1, 1, 2, 1])
        return new.RESHAPE(both, [n, 2 * h, 2 * w, c])


def _unet(new: Build, latent: Tensor, timestep: Tensor, context: Tensor) -> Tensor:
    s, batch = Spelling(new), latent.shape[0]
    angles = new.MUL(new.RESHAPE(timestep, [batch, 1]), new.const(np.float32([[1, 0.1, 0.01]])))
    time = s.silu(s.dense(new.CONCATENATION(new.COS(angles), new.SIN(angles), axis=-1), CHANNELS))
    x = conv(new, latent, CHANNELS, (3, 3))
    hidden = conv(new, s.silu(s.group_norm(x)), CHANNELS, (3, 3))
    shift = new.RESHAPE(s.dense(time, CHANNELS), [batch, 1, 1, CHANNELS])
    x = new.ADD(x, conv(new, s.silu(s.group_norm(new.ADD(hidden, shift))), CHANNELS, (3, 3)))
    tokens = s.dense(new.RESHAPE(s.group_norm(x), [batch, HEIGHT * BREADTH, CHANNELS]), CHANNELS)
    normed = s.layer_norm(tokens)
    tokens = new.ADD(s.attention(normed, normed), tokens)
    tokens = new.ADD(s.attention(s.layer_norm(tokens), context), tokens)
    tokens = new.ADD(s.geglu(s.layer_norm(tokens)), tokens)
    x = new.ADD(new.RESHAPE(s.dense(tokens, CHANNELS), list(x.shape)), x)
    x = conv(new, s.upsample(x), CHANNELS, (3, 3))
    wide = new.PAD(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    return conv(new, wide, 4, (3, 3), padding="VALID")


def unet_block(batch: int = 1) -> Graph:
    """Return a residual block, a spatial transformer and an upsampling, with time and context."""
    return build(
        _unet, latent=(batch, HEIGHT, BREADTH, 4), timestep=(batch,), context=(batch, LENGTH, CONTEXT)
    )


def _text(new: Build, tokens: Tensor) -> Tensor:
    s = Spelling(new)
    index = Tensor("index", tokens.shape, "INT32")
    less, wrapped = new.LESS(tokens, 0), new.ADD(tokens, 9)
    new.ops.append(Op("SELECT", [less, wrapped, tokens], [index]))
    x = new.ADD(new.GATHER(s.weights(9, CHANNELS), index), s.weights(1, LENGTH, CHANNELS))
    hidden = np.triu(np.full((LENGTH, LENGTH), np.finfo(np.float32).min), 1).astype(np.float32)
    mask = new.const(hidden.reshape(1, 1, LENGTH, LENGTH))
    normed = s.layer_norm(x)
    x = new.ADD(x, s.attention(normed, normed, mask))
    x = new.ADD(x, s.flat_attention(s.layer_norm(x)))
    x = new.ADD(x, s.dense(s.gelu(s.dense(s.layer_norm(x), 4 * CHANNELS)), CHANNELS))
    return s.layer_norm(x)


def text_block(batch: int = 1) -> Graph:
    """Return embeddings, masked attention, rank 3 attention and a feed-forward layer."""
    return build(_text, tokens=Ints((batch, LENGTH)))

"""The operations that kernels compute, described without a graph: values, sizes, and strides in elements.

Images are channels last, batch first, without padding between rows or pixels: pixel (b, y, x) begins at
((b*height + y)*width + x)*channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from msd.gpu.value import Value

Activation = Literal[
    "NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH", "LOGISTIC", "SILU", "GELU", "TANH_GELU", "QUICK_GELU"
]
"""GELU is x * (1 + erf(x / sqrt(2))) / 2; the approximate one, TANH_GELU, is its tanh form
x * sigmoid(2*sqrt(2/pi) * (x + 0.044715*x^3)), the argument clipped to |x| <= 10 (both arXiv 1606.08415);
QUICK_GELU is x * sigmoid(1.702*x), as CLIP has it.
"""

Gate = Literal["GELU", "TANH_GELU"]
GATES = get_args(Gate)
"""The activations that a gate may have."""

Stored = Literal["int8", "int4", "f16", "f32"]


@dataclass(frozen=True)
class Filter:
    """A matrix of `rows` x `columns` weights: a row per input, a column per output.

    Row ((ky*kernel_width + kx)*channels + c) has the weights of input channel c under filter tap (ky, kx).
    `values` holds the rows one after another, each padded with zeros to whole words: a u32 has four int8
    (lowest byte first) or eight int4 (lowest bits first) of consecutive columns; rows of f16 and f32 are
    padded to four columns. f16 values are a f16 array where the GPU has shader-f16, else u32 with two each.
    `scale`, f32 of `columns`, is the factor of each column; None for floats, and where it is one. Floats may
    be stored times `shrunk`, a power of two, by which none is larger than 1/32; 1 where they are as they are.
    """

    values: Value
    stored: Stored
    rows: int
    columns: int
    scale: Value | None = None
    shrunk: float = 1.0


@dataclass(frozen=True)
class Epilogue:
    """What happens to each sum: activation(sum * scale + bias + vector[batch]) + residual.

    `bias`: f32 of `columns`. With `slopes`, f32 of `columns`, what the activation leaves below zero is
    multiplied by its column's: PReLU (He et al., 2015, arXiv 1502.01852). `vector`: an activation, `columns`
    for each batch, from element `vector_at` and then every `vector_row` elements, None for `columns`.
    `residual`: an activation like the result. With `gate`, the filter's columns are in pairs of blocks of
    four, values then gates, and the result, which has half as many columns, is value * activation of the
    gate, which `gate` names, before the residual is added.
    """

    bias: Value | None = None
    activation: Activation = "NONE"
    slopes: Value | None = None
    vector: Value | None = None
    vector_at: int = 0
    vector_row: int | None = None
    residual: Value | None = None
    gate: Gate | None = None


@dataclass(frozen=True)
class Conv2D:
    """A convolution, correlation as TFLite has it: y = epilogue(x * filter).

    `height`, `width` and `channels` are the input's as it lies in memory; it is read as if each pixel were
    repeated `upsample` times in both directions. `pad` is (top, left); what lies outside is zero. A pixel of
    the result begins at y_at + its number * y_row, None for its channels; others are multiples of four.
    """

    x: Value
    filter: Filter
    y: Value
    batch: int
    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    upsample: int = 1
    epilogue: Epilogue = Epilogue()
    y_at: int = 0
    y_row: int | None = None

    @property
    def outputs(self) -> int:
        """The channels of the result."""
        return self.filter.columns // 2 if self.epilogue.gate else self.filter.columns

    @property
    def pixels(self) -> int:
        """The pixels of the result, of all batches."""
        return self.batch * self.out_height * self.out_width

    @property
    def flops(self) -> int:
        """Additions and multiplications."""
        return 2 * self.pixels * self.filter.rows * self.filter.columns


@dataclass(frozen=True)
class Heads:
    """Where vectors of attention lie: row r of head h of batch b begins at
    offset + b*batch + h*head + r*row, and its elements are consecutive."""

    value: Value
    offset: int
    batch: int
    head: int
    row: int


@dataclass(frozen=True)
class Attention:
    """y = softmax(scale * q k^T + mask) v for every batch and head.

    q has `queries` rows of `size` elements, k `keys` rows of `size`, v `keys` rows of `value_size`, y
    `queries` rows of `value_size`. `mask` is f32 of `queries` x `keys`, the same for all batches and heads.
    """

    q: Heads
    k: Heads
    v: Heads
    y: Heads
    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float = 1.0
    mask: Value | None = None

    @property
    def flops(self) -> int:
        """Additions and multiplications of the two products."""
        return 2 * self.batch * self.heads * self.queries * self.keys * (self.size + self.value_size)


@dataclass(frozen=True)
class GroupNorm:
    """y = activation((x - mean) / sqrt(variance + epsilon) * scale + shift).

    x is `batch` images of `pixels` pixels of `channels`; mean and variance are over the pixels and the
    channels of a group, of which there are `groups`, equally large. `scale` and `shift` are f32 of
    `channels`.
    """

    x: Value
    y: Value
    batch: int
    pixels: int
    channels: int
    groups: int
    epsilon: float
    scale: Value | None = None
    shift: Value | None = None
    activation: Activation = "NONE"


@dataclass(frozen=True)
class Normalised:
    """An image that is read as activation(x * factor + shift): a group norm whose result is never stored.

    `factors` is f32 of batch x 2 x channels: for each image all factors, then all shifts.
    """

    x: Value
    factors: Value
    activation: Activation = "NONE"


@dataclass(frozen=True)
class LayerNorm:
    """Like GroupNorm for `rows` rows of `channels`, each with a mean and variance of its own."""

    x: Value
    y: Value
    rows: int
    channels: int
    epsilon: float
    scale: Value | None = None
    shift: Value | None = None


@dataclass(frozen=True)
class Softmax:
    """y = softmax(beta * x) of each of `rows` rows of `columns`."""

    x: Value
    y: Value
    rows: int
    columns: int
    beta: float = 1.0


@dataclass(frozen=True)
class Matrices:
    """A batch of matrices: element (i, j) of number n lies at offset + n*batch + i*row + j*column."""

    value: Value
    offset: int
    batch: int
    row: int
    column: int


@dataclass(frozen=True)
class Product:
    """y[n] = scale * a[n] b[n], `batch` products of activations: a `rows` x `depth`, b `depth` x `columns`.

    `stats` makes it the second half of a partially fused softmax (arXiv 2304.11267, section 3.3): f32 pairs
    (maximum, sum of exponentials) of each row of a, n*rows + i the pair's number; a's element is then read as
    exp(a - maximum) / sum.
    """

    a: Matrices
    b: Matrices
    y: Matrices
    batch: int
    rows: int
    columns: int
    depth: int
    scale: float = 1.0
    stats: Value | None = None

    @property
    def flops(self) -> int:
        """Additions and multiplications."""
        return 2 * self.batch * self.rows * self.columns * self.depth

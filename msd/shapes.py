"""The shapes that operators make of their inputs, all static, as TFLite's kernels define them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]


def same(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The first input's shape."""
    return [inputs[0].shape]


def broadcast(inputs: Any, attrs: Attrs) -> list[Shape]:
    """NumPy's rule over all inputs."""
    return [np.broadcast_shapes(*(t.shape for t in inputs))]


def from_input(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The values of the second input, one of which may be -1."""
    wanted = [int(v) for v in inputs[1].values()]
    if -1 in wanted:
        known = -int(np.prod(wanted, dtype=np.int64))
        wanted[wanted.index(-1)] = int(np.prod(inputs[0].shape, dtype=np.int64)) // known
    return [tuple(wanted)]


def reshape(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The values of the second input, one of which may be -1; as many elements as before."""
    (shape,) = from_input(inputs, attrs)
    if np.prod(shape, dtype=np.int64) != np.prod(inputs[0].shape, dtype=np.int64):
        raise ValueError(f"RESHAPE of {inputs[0].shape} to {shape}")
    return [shape]


def reduce(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Without the axes in the second input, or with 1 in their place."""
    x = inputs[0]
    axes = {int(a) % len(x.shape) for a in inputs[1].values().reshape(-1)}
    if attrs["keep_dims"]:
        return [tuple(1 if i in axes else n for i, n in enumerate(x.shape))]
    return [tuple(n for i, n in enumerate(x.shape) if i not in axes)]


def batch_matmul(inputs: Any, attrs: Attrs) -> list[Shape]:
    """(…, M, K) by (…, K, N) makes (…, M, N)."""
    a, b = inputs[0].shape, inputs[1].shape
    rows, inner = (a[-1], a[-2]) if attrs["adj_x"] else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if attrs["adj_y"] else (b[-2], b[-1])
    if inner != other:
        raise ValueError(f"BATCH_MATMUL of {a} and {b}: {inner} is not {other}")
    return [(*np.broadcast_shapes(a[:-2], b[:-2]), rows, columns)]


def concatenation(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Sizes along `axis` add up."""
    shape = list(inputs[0].shape)
    axis = attrs["axis"] % len(shape)
    shape[axis] = sum(t.shape[axis] for t in inputs)
    return [tuple(shape)]


def _window(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    reach = 1 if padding == "SAME" else (kernel - 1) * dilation + 1
    return (size - reach) // stride + 1 if padding == "VALID" else -(-size // stride)


def conv_2d(inputs: Any, attrs: Attrs) -> list[Shape]:
    """NHWC by OHWI makes NHWO."""
    (n, h, w, c), (o, kh, kw, i) = inputs[0].shape, inputs[1].shape
    if c % i:
        raise ValueError(f"CONV_2D of {c} channels by a filter over {i}")
    return [
        (
            n,
            _window(h, kh, attrs["stride_h"], attrs["dilation_h_factor"], attrs["padding"]),
            _window(w, kw, attrs["stride_w"], attrs["dilation_w_factor"], attrs["padding"]),
            o,
        )
    ]


def embedding_lookup(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Rows of the table (second input) by id (first input)."""
    return [(*inputs[0].shape, *inputs[1].shape[1:])]


def expand_dims(inputs: Any, attrs: Attrs) -> list[Shape]:
    """A 1 at the axis in the second input."""
    axis = int(inputs[1].values().reshape(-1)[0])
    shape = list(inputs[0].shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
    return [tuple(shape)]


def fully_connected(inputs: Any, attrs: Attrs) -> list[Shape]:
    """(…, I) by (O, I) makes (…, O), flattened to two axes unless `keep_num_dims`."""
    x, (units, width) = inputs[0].shape, inputs[1].shape
    if attrs["keep_num_dims"]:
        return [(*x[:-1], units)]
    return [(int(np.prod(x, dtype=np.int64)) // width, units)]


def gather(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The indices' shape in place of `axis`."""
    x, indices = inputs[0].shape, inputs[1].shape
    axis, batch = attrs["axis"] % len(x), attrs["batch_dims"]
    return [(*x[:axis], *indices[batch:], *x[axis + 1 :])]


def pad(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Each axis longer by what the second input says for both its ends."""
    return [tuple(n + int(sum(p)) for n, p in zip(inputs[0].shape, inputs[1].values(), strict=True))]


def resize(inputs: Any, attrs: Attrs) -> list[Shape]:
    """(N, H, W, C) with height and width from the second input."""
    n, _, _, c = inputs[0].shape
    h, w = (int(v) for v in inputs[1].values())
    return [(n, h, w, c)]


def slice_(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The sizes in the third input, where -1 means up to the end."""
    begin, size = inputs[1].values(), inputs[2].values()
    pairs = list(zip(inputs[0].shape, begin, size, strict=True))
    if any(b + max(s, 0) > n for n, b, s in pairs):
        raise ValueError(f"SLICE of {inputs[0].shape} from {begin.tolist()}, {size.tolist()} long")
    return [tuple(n - int(b) if s == -1 else int(s) for n, b, s in pairs)]


def split(inputs: Any, attrs: Attrs) -> list[Shape]:
    """`num_splits` equal parts of the second input along the axis in the first."""
    shape, parts = list(inputs[1].shape), attrs["num_splits"]
    axis = int(inputs[0].values().reshape(-1)[0]) % len(shape)
    if shape[axis] % parts:
        raise ValueError(f"SPLIT of {shape[axis]} into {parts}")
    shape[axis] //= parts
    return [tuple(shape)] * parts


def tile(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Each axis times what the second input says."""
    return [tuple(n * int(m) for n, m in zip(inputs[0].shape, inputs[1].values(), strict=True))]


def transpose(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Axes in the order of the second input."""
    return [tuple(inputs[0].shape[int(i)] for i in inputs[1].values())]

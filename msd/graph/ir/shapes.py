"""Shape inference: the static shapes of an operator's results, as TFLite's kernels define them.

Each docstring describes the result's shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from msd.files.wording import counted

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]


def same(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The first input's shape."""
    return [inputs[0].shape]


def broadcast(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The broadcast of all inputs by NumPy's rule."""
    return [np.broadcast_shapes(*(t.shape for t in inputs))]


def reshape(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The values of the second input, else `new_shape`; one of them may be -1."""
    requested = inputs[1].values().reshape(-1) if len(inputs) > 1 else attrs["new_shape"]
    shape, size = [int(n) for n in requested], math.prod(inputs[0].shape)
    if -1 in shape:
        known = -math.prod(shape)
        shape[shape.index(-1)] = size // known if known else 0
    if math.prod(shape) != size:
        raise ValueError(f"RESHAPE of {inputs[0].shape} to {tuple(requested)}")
    return [tuple(shape)]


def broadcast_to(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The values of the second input; the first must broadcast to them by NumPy's rule."""
    shape = tuple(int(n) for n in inputs[1].values())
    if np.broadcast_shapes(inputs[0].shape, shape) != shape:
        raise ValueError(f"BROADCAST_TO of {inputs[0].shape} to {shape}")
    return [shape]


def _axis(axis: Any, rank: int) -> int:
    """Return `axis`, counted from the end where negative, as a position among `rank` axes."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of {rank}")
    return int(axis) % rank


def reduce(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The first input's shape without the axes in the second input, or with 1 in their place."""
    x = inputs[0]
    axes = {_axis(a, len(x.shape)) for a in inputs[1].values().reshape(-1)}
    if attrs["keep_dims"]:
        return [tuple(1 if i in axes else n for i, n in enumerate(x.shape))]
    return [tuple(n for i, n in enumerate(x.shape) if i not in axes)]


def batch_matmul(inputs: Any, attrs: Attrs) -> list[Shape]:
    """(…, M, N) for inputs (…, M, K) and (…, K, N)."""
    a, b = inputs[0].shape, inputs[1].shape
    rows, inner = (a[-1], a[-2]) if attrs["adj_x"] else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if attrs["adj_y"] else (b[-2], b[-1])
    if inner != other:
        raise ValueError(f"BATCH_MATMUL of {a} and {b}: {inner} is not {other}")
    return [(*np.broadcast_shapes(a[:-2], b[:-2]), rows, columns)]


def concatenation(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Sizes along `axis` add up."""
    shape = inputs[0].shape
    axis = _axis(attrs["axis"], len(shape))
    if len({(*t.shape[:axis], 0, *t.shape[axis + 1 :]) for t in inputs}) > 1:
        raise ValueError(f"CONCATENATION of {[t.shape for t in inputs]} along axis {axis}")
    return [(*shape[:axis], sum(t.shape[axis] for t in inputs), *shape[axis + 1 :])]


def _window(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """Return the number of windows along one axis."""
    reach = 1 if padding == "SAME" else (kernel - 1) * dilation + 1
    if size < reach or stride < 1:
        raise ValueError(f"a window of {reach} over {size} in steps of {stride}")
    return (size - reach) // stride + 1


def conv_2d(inputs: Any, attrs: Attrs) -> list[Shape]:
    """NHWO for an input NHWC and filters OHWI."""
    c, (o, kh, kw, i) = inputs[0].shape[3], inputs[1].shape
    if c % i:
        raise ValueError(f"CONV_2D of {counted(c, 'channel')} by a filter over {i}")
    return _windows(inputs[0].shape, (kh, kw), o, attrs)


def depthwise_conv_2d(inputs: Any, attrs: Attrs) -> list[Shape]:
    """NHWO for an input NHWC and filters 1HWO, where C divides O."""
    c, (_, kh, kw, o) = inputs[0].shape[3], inputs[1].shape
    if o % c:
        raise ValueError(f"DEPTHWISE_CONV_2D of {counted(c, 'channel')} to {o}")
    return _windows(inputs[0].shape, (kh, kw), o, attrs)


def pool_2d(inputs: Any, attrs: Attrs) -> list[Shape]:
    """NHWC with a place for each window of `filter_height` by `filter_width`."""
    shape = inputs[0].shape
    return _windows(shape, (attrs["filter_height"], attrs["filter_width"]), shape[3], attrs)


def _windows(image: Shape, kernel: tuple[int, int], channels: int, attrs: Attrs) -> list[Shape]:
    """Return the result's shape, with one place for each window."""
    n, h, w, _ = image
    dilations = attrs.get("dilation_h_factor", 1), attrs.get("dilation_w_factor", 1)
    rows = _window(h, kernel[0], attrs["stride_h"], dilations[0], attrs["padding"])
    columns = _window(w, kernel[1], attrs["stride_w"], dilations[1], attrs["padding"])
    return [(n, rows, columns, channels)]


def embedding_lookup(inputs: Any, attrs: Attrs) -> list[Shape]:
    """One row of the table (second input) for each id (first input)."""
    if len(inputs[0].shape) != 1:
        raise ValueError(f"EMBEDDING_LOOKUP of ids {inputs[0].shape}, not of a list")
    return [(*inputs[0].shape, *inputs[1].shape[1:])]


def expand_dims(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The first input's shape with a 1 inserted at the axis in the second input."""
    shape = inputs[0].shape
    axis = _axis(inputs[1].values().reshape(-1)[0], len(shape) + 1)
    return [(*shape[:axis], 1, *shape[axis:])]


def fully_connected(inputs: Any, attrs: Attrs) -> list[Shape]:
    """(…, O) for an input (…, I) and weights (O, I), flattened to two axes unless `keep_num_dims`."""
    x, (units, width) = inputs[0].shape, inputs[1].shape
    rows, left = divmod(math.prod(x), width)
    if left or (attrs["keep_num_dims"] and x[-1] != width):
        raise ValueError(f"FULLY_CONNECTED of {x} by weights over {width}")
    return [(*x[:-1], units) if attrs["keep_num_dims"] else (rows, units)]


def gather(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The first input's shape with the shape of the indices in the place of `axis`."""
    x, indices = inputs[0].shape, inputs[1].shape
    axis, batch = _axis(attrs["axis"], len(x)), attrs["batch_dims"]
    batch += len(indices) if batch < 0 else 0
    if x[:batch] != indices[:batch] or batch > axis:
        raise ValueError(f"GATHER of {indices} from axis {axis} of {x} in {batch} batches")
    return [(*x[:axis], *indices[batch:], *x[axis + 1 :])]


def pad(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Each axis extended at both ends by the paddings in the second input."""
    return [tuple(n + int(sum(p)) for n, p in zip(inputs[0].shape, inputs[1].values(), strict=True))]


def resize(inputs: Any, attrs: Attrs) -> list[Shape]:
    """(N, H, W, C) with H and W from the second input."""
    n, _, _, c = inputs[0].shape
    h, w = (int(v) for v in inputs[1].values())
    return [(n, h, w, c)]


def slice_(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The sizes in the third input, where -1 stands for the rest of the axis."""
    shape, begin = inputs[0].shape, [int(b) for b in inputs[1].values()]
    sizes = zip(shape, begin, inputs[2].values(), strict=True)
    result = tuple(n - b if size == -1 else int(size) for n, b, size in sizes)
    if any(not 0 <= b <= b + size <= n for n, b, size in zip(shape, begin, result, strict=True)):
        raise ValueError(f"SLICE of {result} at {begin} from {shape}")
    return [result]


def split(inputs: Any, attrs: Attrs) -> list[Shape]:
    """`num_splits` equal parts of the second input along the axis in the first."""
    shape, parts = inputs[1].shape, attrs["num_splits"]
    axis = _axis(inputs[0].values().reshape(-1)[0], len(shape))
    if shape[axis] % parts:
        raise ValueError(f"SPLIT of {shape[axis]} into {parts}")
    return [(*shape[:axis], shape[axis] // parts, *shape[axis + 1 :])] * parts


def tile(inputs: Any, attrs: Attrs) -> list[Shape]:
    """Each axis multiplied by the second input."""
    return [tuple(n * int(m) for n, m in zip(inputs[0].shape, inputs[1].values(), strict=True))]


def transpose(inputs: Any, attrs: Attrs) -> list[Shape]:
    """The first input's axes in the order that the second input gives."""
    shape = inputs[0].shape
    perm = [_axis(i, len(shape)) for i in inputs[1].values()]
    if sorted(perm) != list(range(len(shape))):
        raise ValueError(f"TRANSPOSE of {shape} in the order {perm}")
    return [tuple(shape[i] for i in perm)]

"""The layer that sums over a unit, as a matrix product: its inputs as rows, its weights, and new weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msd.compress.pruning.relations import tensor_at
from msd.graph.ir import Build, Op, Tensor
from msd.graph.ir.weights import Array, Weights

Pair = tuple[int, int]


def arranged(tensor: Tensor) -> Weights:
    """Return the weights of a constant, or of one that operators only transpose, reshape or convert."""
    op = tensor.producer
    if op is None:
        return tensor.weights
    inner = arranged(tensor_at(op, 0))
    if op.kind == "TRANSPOSE":
        return inner.transpose(tuple(int(i) for i in tensor_at(op, 1).values()))
    return (inner if inner.dtype == np.float32 else inner.astype(np.float32)).reshape(tensor.shape)


def matrix(op: Op) -> Weights:
    """Return the weights of a CONV_2D, FULLY_CONNECTED or BATCH_MATMUL as (outputs, inputs)."""
    weights = arranged(tensor_at(op, 1))
    if op.kind != "BATCH_MATMUL":
        return weights.reshape((weights.shape[0], weights.size // weights.shape[0]))
    weights = weights.reshape(weights.shape[-2:])
    return weights if op.attrs["adj_y"] else weights.transpose((1, 0))


def replace_weights(op: Op, weights: Weights, sources: tuple[str, ...]) -> None:
    """Replace the layer's weights by float32 (outputs, inputs), from the checkpoint's tensors `sources`."""
    old = tensor_at(op, 1)
    if op.kind == "BATCH_MATMUL" and not op.attrs["adj_y"]:
        weights = weights.transpose((1, 0))
    new = Build().const(replace(weights.reshape(old.shape), sources=sources), f"{old.name}/refitted")
    op.inputs = (op.inputs[0], new, *op.inputs[2:])


def rows(op: Op, x: Array) -> Array:
    """Return the rows that the layer's weights are multiplied with, (rows, inputs), for its input `x`."""
    if op.kind != "CONV_2D":
        return x.reshape(-1, x.shape[-1])
    windows = _windows_of(op, x)
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, windows[0, 0, 0].size)


def some_rows(op: Op, x: Array, most: int, seed: int) -> Array:
    """Return at most `most` of those rows of a CONV_2D, at random positions in ascending order."""
    windows = _windows_of(op, x)
    count = windows.shape[0] * windows.shape[1] * windows.shape[2]
    some: Array = windows[np.unravel_index(some_positions(count, most, seed), windows.shape[:3])]
    return some.transpose(0, 2, 3, 1).reshape(len(some), -1)


def some_positions(count: int, most: int, seed: int) -> Array:
    """Return at most `most` of `count` positions, random and in ascending order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def _windows_of(op: Op, x: Array) -> Array:
    _, height, width, _ = tensor_at(op, 1).shape
    strides = op.attrs["stride_h"], op.attrs["stride_w"]
    dilations = op.attrs["dilation_h_factor"], op.attrs["dilation_w_factor"]
    return _windows(x, (height, width), strides, dilations, op.attrs["padding"] == "SAME")


def _windows(x: Array, kernel: Pair, strides: Pair, dilations: Pair, same: bool) -> Array:
    """Return a view of the windows, (batch, height, width, channels, height, width).

    Padding "SAME" is TensorFlow's: of an odd number of pixels, one more goes to the end.
    """
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if same:
        sizes = zip(x.shape[1:3], strides, reach, strict=True)
        pads = [max(0, (-(-size // step) - 1) * step + long - size) for size, step, long in sizes]
        x = np.pad(x, ((0, 0), *((p // 2, p - p // 2) for p in pads), (0, 0)))
    windows: Array = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(1, 2))  # type: ignore[call-overload]
    return windows[:, :: strides[0], :: strides[1], :, :: dilations[0], :: dilations[1]]

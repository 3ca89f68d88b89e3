"""A graph in float16: results are rounded, and what is beyond 65504 is infinite. Sums are kept in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.ir.weights import Array

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "NONE": lambda x: x,
    "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
}


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _mean(x: Array, axes: Array) -> Array:
    return np.asarray(x.mean(tuple(axes.reshape(-1)), dtype=np.float32, keepdims=True))


def _filtered(x: Array, w: Array, b: Array) -> Array:
    """Return a convolution at the same size."""
    _, height, width, _ = x.shape
    rows, columns = w.shape[1:3]
    sides = [(0, 0), *(((n - 1) // 2, n // 2) for n in (rows, columns)), (0, 0)]
    padded = np.pad(x.astype(np.float32), sides)
    shifted = [
        padded[:, i : i + height, j : j + width] @ w[:, i, j].T.astype(np.float32)
        for i in range(rows)
        for j in range(columns)
    ]
    return np.asarray(sum(shifted) + b.astype(np.float32))


def _enlarged(x: Array, size: Array) -> Array:
    """Return the nearest neighbours, of a whole factor."""
    rows, columns = (int(n) // m for n, m in zip(size, x.shape[1:3], strict=True))
    return x.repeat(rows, 1).repeat(columns, 2)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "ADD": np.add,
    "BATCH_MATMUL": lambda a, b: a.astype(np.float32) @ b.astype(np.float32),
    "CONV_2D": _filtered,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x.astype(np.float32))),
    "MEAN": _mean,
    "MUL": np.multiply,
    "NEG": np.negative,
    "RESHAPE": lambda x, shape: x.reshape(shape),
    "RESIZE_NEAREST_NEIGHBOR": _enlarged,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SOFTMAX": _softmax,
    "SQUARED_DIFFERENCE": lambda a, b: np.square(a - b),
    "SUB": np.subtract,
    "TRANSPOSE": lambda x, order: x.transpose(order),
}


def in_half(graph: Graph, feeds: Mapping[str, Array]) -> dict[Tensor, Array]:
    """Return every result of `graph`, computed in float16."""
    values: dict[Tensor, Array] = {t: feeds[t.name].astype(np.float16) for t in graph.inputs}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for o in graph.ops:
            values[o.outputs[0]] = _result(o, values)
    return values


def _result(o: Op, values: Mapping[Tensor, Array]) -> Array:
    made = FUNCTIONS[o.kind](*(_operand(t, values) for t in o.operands))
    return ACTIVATIONS[o.attrs.get("fused_activation_function", "NONE")](made).astype(np.float16)


def _operand(tensor: Tensor, values: Mapping[Tensor, Array]) -> Array:
    if tensor.data is None:
        return values[tensor]
    return tensor.values().astype(np.float16) if tensor.dtype == "FLOAT32" else tensor.values()


def overflowed(results: Mapping[Tensor, Array]) -> list[str]:
    """Return the operators whose results are not all finite."""
    return [t.maker.kind for t, v in results.items() if t.producer and not np.isfinite(v).all()]

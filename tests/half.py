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


def _pointwise(x: Array, w: Array, b: Array) -> Array:
    assert w.shape[1:3] == (1, 1)
    wide = [a.astype(np.float32) for a in (x, w[:, 0, 0, :].T, b)]
    return np.asarray(wide[0] @ wide[1] + wide[2])


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "ADD": np.add,
    "BATCH_MATMUL": lambda a, b: a.astype(np.float32) @ b.astype(np.float32),
    "CONV_2D": _pointwise,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x.astype(np.float32))),
    "MEAN": _mean,
    "MUL": np.multiply,
    "NEG": np.negative,
    "RESHAPE": lambda x, shape: x.reshape(shape),
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SOFTMAX": _softmax,
    "SQUARED_DIFFERENCE": lambda a, b: np.square(a - b),
    "SUB": np.subtract,
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

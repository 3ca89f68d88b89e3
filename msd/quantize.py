"""int8 and float16 weights, described on the tensors: values are computed when the file is written.

int8 is per channel, symmetric, in the narrow range [-127, 127], scale = amax / 127, in the form that GPU
delegates take as it is: the integers go straight into CONV_2D, without DEQUANTIZE. Operator versions are the
lowest that mean it (tensorflow/lite/tools/versioning/op_version.cc).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msd.ir import Build, Graph, Op, Quant, Tensor
from msd.weights import Array

WEIGHTS = ("int8", "float16", "float32")
SMALLEST = 1024
"""Constants of fewer elements stay float32: nothing is gained."""

SMALLEST_SCALE = np.finfo(np.float32).tiny

FILTER_VERSION = {"CONV_2D": 5, "EMBEDDING_LOOKUP": 4}
"""Operators that take int8 weights with one scale per slice of axis 0, and their version then."""


@dataclass(frozen=True)
class Encoding:
    """How many constants are stored as what, and the bytes of all constants."""

    int8: int = 0
    float16: int = 0
    float32: int = 0


def quantize_rows(values: Array) -> tuple[Array, Array]:
    """Return (int8 values, float32 scale of each row of axis 0); a row of zeros has scale 1.

    Values are within scale / 2 of what is stored for them, and the largest of a row is stored as ±127 unless
    it is so small that 1/127 of it would not be a normal float32.
    """
    rows = np.asarray(values, np.float32).reshape(len(values), -1)
    amax = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0))
    scale = np.where(amax > 0, np.maximum(amax / np.float32(127), SMALLEST_SCALE), np.float32(1))
    stored = rows / scale[:, None]
    np.rint(stored, out=stored)
    return stored.astype(np.int8).reshape(values.shape), scale


def encode(graph: Graph, weights: str) -> Encoding:
    """Give the large weights of `graph` the encoding `weights`; the rest stays. Returns the counts."""
    chosen = {"int8": _to_int8, "float16": _to_float16, "float32": _keep}[weights]
    for tensor in [t for t in graph.tensors() if _is_learnt(graph, t)]:
        chosen(graph, tensor)
    dtypes = [t.dtype for t in graph.tensors() if t.data is not None]
    return Encoding(*(dtypes.count(d) for d in ("INT8", "FLOAT16", "FLOAT32")))


def _is_learnt(graph: Graph, tensor: Tensor) -> bool:
    """Whether it is a large weight from a checkpoint: what rewrites wrote down stays as exact as it is."""
    if tensor.data is None or tensor.dtype != "FLOAT32" or tensor.size < SMALLEST:
        return False
    return not tensor.data.exact and bool(tensor.uses) and tensor not in graph.outputs


def _keep(graph: Graph, tensor: Tensor) -> None:
    pass


def _to_int8(graph: Graph, tensor: Tensor) -> None:
    """Only filters and tables, the second input of the operators that take them."""
    if any(op.kind not in FILTER_VERSION or i != 1 for op, i in tensor.uses):
        return
    rows = tensor.shape[0]
    tensor.dtype = "INT8"
    tensor.quant = Quant(np.zeros(rows, np.float32), np.zeros(rows, np.int64), 0, quantize_rows)
    for op, _ in tensor.uses:
        op.version = max(op.version, FILTER_VERSION[op.kind])


def _to_float16(graph: Graph, tensor: Tensor) -> None:
    """constant float32  =>  DEQUANTIZE(constant float16), which delegates take back out.

    Tables stay float32: no delegate takes rows of a float16 table.
    """
    users = list(tensor.uses)
    if any(op.kind == "EMBEDDING_LOOKUP" for op, _ in users):
        return
    half = Tensor(
        f"{tensor.name}/float16",
        tensor.shape,
        "FLOAT16",
        tensor.weights.map("float16", _halve, dtype="float16"),
    )
    new = Build()
    full = new.DEQUANTIZE(half, version=3)
    full.name = tensor.name
    graph.insert_before(_first(graph, [op for op, _ in users]), new.ops)
    graph.replace_tensor(tensor, full)


def _halve(values: Array) -> Array:
    """Return float16 values; what float16 cannot hold becomes its largest number."""
    limit = np.finfo(np.float16).max
    return np.clip(np.asarray(values, np.float32), -limit, limit).astype(np.float16)


def _first(graph: Graph, ops: list[Op]) -> Op:
    wanted = set(ops)
    return next(op for op in graph.ops if op in wanted)

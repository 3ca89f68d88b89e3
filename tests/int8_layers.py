"""Layers with int8 or int4 weights at version 1, as other converters leave them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from msd.graph import tflite
from msd.graph.ir import Graph, Model, Op, Quant, Tensor
from msd.graph.ir.weights import Weights

INPUTS = {
    "FULLY_CONNECTED": (5, 16),
    "BATCH_MATMUL": (1, 5, 16),
    "CONV_2D": (1, 5, 6, 16),
    "DEPTHWISE_CONV_2D": (1, 5, 6, 16),
    "EMBEDDING_LOOKUP": (3,),
}


def save_layer(folder: Path, kind: str, scales: int, dtype: str = "INT8") -> Path:
    """Write a model of one layer whose weights have so many scales; returns its path."""
    shape, result, axis = {
        "FULLY_CONNECTED": ((12, 16), (5, 12), 0),
        "BATCH_MATMUL": ((16, 12), (1, 5, 12), 1),
        "CONV_2D": ((12, 3, 3, 16), (1, 5, 6, 12), 0),
        "DEPTHWISE_CONV_2D": ((1, 3, 3, 16), (1, 5, 6, 16), 3),
        "EMBEDDING_LOOKUP": ((12, 16), (3, 16), 0),
    }[kind]
    values = (
        np.random.default_rng(3)
        .integers(*((-120, 121) if dtype == "INT8" else (-7, 8)), shape)
        .astype(np.int8)
    )
    quant = Quant(np.geomspace(0.01, 0.1, scales).astype(np.float32), np.zeros(scales, np.int64), axis)
    w = Tensor("w", shape, dtype, Weights.of(values), quant)
    x, y = (
        Tensor("x", INPUTS[kind], "INT32" if kind == "EMBEDDING_LOOKUP" else "FLOAT32"),
        Tensor("y", result),
    )
    bias = Tensor("b", (result[-1],), data=Weights.of(np.zeros(result[-1], np.float32)))
    steps = {"stride_h": 1, "stride_w": 1, "padding": "SAME"} if "CONV" in kind else {}
    inputs = [x, w, bias] if "CONV" in kind else [x, w]
    if kind == "DEPTHWISE_CONV_2D":
        steps["depth_multiplier"] = 1
    tflite.write(Model([Graph([x], [y], [Op(kind, inputs, [y], steps)])]), folder / "layer.tflite")
    return folder / "layer.tflite"

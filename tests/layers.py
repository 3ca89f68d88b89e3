"""A convolution and a lookup whose weights are learnt, to be encoded, and the same convolution in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from msd.compress.encoding.encode import encode as encode_with
from msd.compress.encoding.recipe import Line, Recipe, find_recipe
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Weights
from tests.on_cpu import graph, normal

Array = np.ndarray[Any, Any]


def encode(made: Graph, recipe: str | Recipe, component: str = "unet") -> dict[str, int]:
    """Return how many constants are stored as what."""
    chosen = find_recipe(recipe) if isinstance(recipe, str) else recipe
    return dict(encode_with(made, chosen, component).stored)


def recipe(*lines: Line) -> Recipe:
    return Recipe("mine", lines)


def learnt(array: Array, *sources: str) -> Weights:
    """Weights as they come from a checkpoint, made of its tensors `sources`."""
    return Weights(array.shape, array.dtype, lambda: array, "w", sources=sources)


def convolve(x: Array, kernel: Array, stride: int) -> Array:
    """Return the unpadded convolution of NHWC `x` with an OHWI `kernel`, in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), kernel.shape[1:3], axis=(1, 2))
    return np.einsum("nyxcij,oijc->nyxo", windows[:, ::stride, ::stride], kernel.astype(np.float64))


X = normal(1, 9, 7, 24, seed=1)
KERNEL = normal(16, 3, 2, 24, seed=2) * (np.arange(16, dtype=np.float32) + 1).reshape(-1, 1, 1, 1)


def conv_graph(weights: Weights) -> Graph:
    new = Build()
    x = Tensor("x", X.shape)
    filters = new.const(weights, "filters")
    y = new.CONV_2D(x, filters, np.arange(16, dtype=np.float32), padding="VALID", stride_h=2, stride_w=2)
    y.name = "y"
    return graph(new, [x], [y])


def save(made: Graph, folder: Path) -> Path:
    path = folder / "model.tflite"
    tflite.write(Model([made]), path)
    return path


TABLE = normal(97, 16, seed=3) * (np.arange(97, dtype=np.float32) % 7 + 1)[:, None]
IDS = np.array([5, 0, 96, 5, 31], np.int32)


def table_graph() -> Graph:
    new = Build()
    ids = Tensor("ids", IDS.shape, "INT32")
    y = new.EMBEDDING_LOOKUP(ids, new.const(learnt(TABLE), "table"))
    y.name = "y"
    return graph(new, [ids], [y])

"""ai-edge-quantizer 0.10.0 given the same weights: its integers and scales are ours, to the last bit.

Below its limit: from 32 MiB on it raises for weights of more than two dimensions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_quantizer import quantizer, recipe, recipe_manager
from ai_edge_quantizer.algorithm_manager import AlgorithmName
from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName

from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import Line, Recipe
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Weights
from tests.on_cpu import graph, normal

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
"""Theirs divides zeros by the scale zero."""

RECIPES = {"int8": recipe.dynamic_wi8c_afp32, "int4": recipe.dynamic_wi4c_afp32}


def uneven(*shape: int) -> Array:
    """Return rows of very different sizes: tiny, huge, of one sign, with an outlier, of few numbers."""
    rows = normal(*shape, seed=sum(shape))
    rows *= (10.0 ** (np.arange(shape[0]) % 13 - 6)).astype(np.float32).reshape(-1, *[1] * (len(shape) - 1))
    rows[1] = np.abs(rows[1])
    rows[2].reshape(-1)[3] = 50
    rows[6] = np.round(rows[6])
    rows[4] *= np.float32(1e12)
    rows[5] = 0
    return rows


def without_zeros(rows: Array) -> Array:
    kept = rows.copy()
    kept[5] = kept[0]
    return kept


FILTERS = [uneven(48, 3, 3, 24), uneven(33, 1, 1, 48), uneven(17, 5, 2, 33), uneven(64, 1, 3, 17)]
TABLE = uneven(131, 24)


def network(filters: list[Array], table: Array) -> Graph:
    """Return a chain of convolutions on the rows of a table."""
    new, ids = Build(), Tensor("ids", (70,), "INT32")
    rows = new.EMBEDDING_LOOKUP(ids, new.const(learnt(table), "table"))
    x = new.RESHAPE(rows, np.array([1, 10, 7, 24], np.int32), new_shape=(1, 10, 7, 24))
    for n, values in enumerate(filters):
        bias = np.zeros(len(values), np.float32)
        x = new.CONV_2D(x, new.const(learnt(values), f"w{n}"), bias, padding="SAME", stride_h=1, stride_w=1)
    return graph(new, [ids], [x])


def learnt(array: Array) -> Weights:
    return Weights(array.shape, array.dtype, lambda: array, "w")


def stored(path: Path) -> list[Tensor]:
    """Return the weights that a file keeps as integers, in the order of the operators that read them."""
    tensors = tflite.read(path).main.tensors()
    found = [t for t in tensors if t.data is not None and t.dtype in ("INT8", "INT4")]
    return sorted(found, key=lambda t: t.name)


def theirs(folder: Path, how: Any, filters: list[Array] = FILTERS, table: Array = TABLE) -> list[Tensor]:
    source, result = folder / "float.tflite", folder / "theirs.tflite"
    tflite.write(Model([network(filters, table)]), source)
    quantizer.Quantizer(str(source), how).quantize().export_model(str(result))
    return stored(result)


def ours(folder: Path, line: Line, filters: list[Array] = FILTERS, table: Array = TABLE) -> list[Tensor]:
    made = network(filters, table)
    encode(made, Recipe("mine", (line,)), "unet")
    tflite.write(Model([made]), folder / "ours.tflite")
    return stored(folder / "ours.tflite")


def assert_same(a: Tensor, b: Tensor) -> None:
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.quant
    assert b.quant
    np.testing.assert_array_equal(a.quant.scale, b.quant.scale, a.name)
    assert (a.quant.zero_point.tolist(), a.quant.axis) == (b.quant.zero_point.tolist(), b.quant.axis)
    np.testing.assert_array_equal(a.weights.load().view(np.uint8), b.weights.load().view(np.uint8), a.name)


@pytest.mark.parametrize("store", RECIPES)
def test_the_same_integers_and_scales(store: str, tmp_path: Path) -> None:
    wanted = theirs(tmp_path, RECIPES[store]())
    assert len(wanted) == len(FILTERS) + 1
    for a, b in zip(ours(tmp_path, Line(store, algorithm="min-max")), wanted, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("store", RECIPES)
def test_the_same_with_what_they_call_mse(store: str, tmp_path: Path) -> None:
    """But for rows of zeros, to which they give the scale 0: integers divided by it are no numbers."""
    filters, table = [without_zeros(f) for f in FILTERS], without_zeros(TABLE)
    how = RECIPES[store](algorithm_key=AlgorithmName.MSE)
    wanted = theirs(tmp_path, how, filters, table)
    assert len(wanted) == len(FILTERS) + 1
    for a, b in zip(ours(tmp_path, Line(store, algorithm="rms"), filters, table), wanted, strict=True):
        assert_same(a, b)


def test_their_rows_of_zeros_have_the_scale_zero(tmp_path: Path) -> None:
    wanted = theirs(tmp_path, RECIPES["int8"](algorithm_key=AlgorithmName.MSE))
    for a, b in zip(ours(tmp_path, Line("int8", algorithm="rms")), wanted, strict=True):
        assert a.quant
        assert b.quant
        assert b.quant.scale[5] == 0 < a.quant.scale[5]
        assert not a.weights.load()[5].any()


def test_the_same_through_a_dequantize(tmp_path: Path) -> None:
    how = recipe.weight_only_wi8_afp32()
    wanted = theirs(tmp_path, how)
    assert len(wanted) == len(FILTERS) + 1
    for a, b in zip(ours(tmp_path, Line("int8", explicit=True)), wanted, strict=True):
        assert_same(a, b)


def test_the_same_with_one_scale(tmp_path: Path) -> None:
    how = recipe_manager.RecipeManager()
    how.add_weight_only_config(".*", TFLOperationName.CONV_2D, 8, QuantGranularity.TENSORWISE)
    wanted = theirs(tmp_path, how.get_quantization_recipe())
    assert len(wanted) == len(FILTERS)
    line = Line("int8", op=("CONV_2D",), granularity="tensor")
    for a, b in zip(ours(tmp_path, line), wanted, strict=True):
        assert_same(a, b)

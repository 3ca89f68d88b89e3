"""Sparse constants: every layout gives its array back, and the real DENSIFY agrees; damage is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.graph import tflite
from msd.graph.ir import NUMPY, Build, Graph, Model, Quant, Tensor
from msd.graph.ir.sparsity import Level, Sparsity
from msd.graph.ir.weights import Array, Weights
from msd.run.runners.interpreter import Interpreter
from tests.sparse_constants import densify, mostly_zero, sparse

LAYOUTS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((6, 8), {}),
    ((6, 8), {"compressed": (0, 1)}),
    ((6, 8), {"order": (1, 0), "compressed": (1,)}),
    ((6, 8), {"blocks": [(1, 4)], "compressed": (1,)}),
    ((6, 8), {"blocks": [(0, 2), (1, 4)], "compressed": (1,)}),
    ((6, 8), {"blocks": [(0, 3), (1, 2)], "order": (1, 0, 2, 3), "compressed": (1,)}),
    ((4, 3, 3, 8), {}),
    ((4, 3, 2, 8), {"blocks": [(3, 4)], "compressed": (0, 3)}),
]


def expanded(tensor: Tensor) -> Array:
    assert tensor.sparsity is not None
    return tensor.sparsity.dense(tensor.weights, tensor.shape, NUMPY[tensor.dtype]).load()


@pytest.mark.parametrize(("shape", "layout"), LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_it_is_what_tflite_s_densify_makes_of_it(
    shape: tuple[int, ...], layout: dict[str, Any], dtype: str, tmp_path: Path
) -> None:
    values, new, x = mostly_zero(*shape, dtype=dtype), Build(), Tensor("x", shape)
    one = Quant(np.ones(1, np.float32), np.zeros(1, np.int64))
    tensor = sparse(values, **layout, quant=one if dtype == "int8" else None)
    np.testing.assert_array_equal(expanded(tensor), values)
    dense = densify(new, tensor)
    graph = Graph([x], [new.ADD(x, new.DEQUANTIZE(dense, version=2) if dtype == "int8" else dense)], new.ops)
    tflite.write(Model([graph]), tmp_path / "sparse.tflite")
    again = next(t for t in tflite.read(tmp_path / "sparse.tflite").main.tensors() if t.sparsity)
    np.testing.assert_array_equal(expanded(again), values)
    with Interpreter(tmp_path / "sparse.tflite", float_weights=True) as network:
        (made,) = network.run({"x": np.zeros(shape, np.float32)}).values()
    np.testing.assert_array_equal(made, values)


@st.composite
def layouts(draw: Any) -> tuple[Array, dict[str, Any]]:
    rank = draw(st.integers(1, 4))
    axes = draw(st.lists(st.integers(0, rank - 1), max_size=2, unique=True).map(sorted))
    blocks = [(axis, draw(st.integers(1, 3))) for axis in axes]
    shape = tuple(draw(st.integers(1, 3)) * dict(blocks).get(axis, 1) for axis in range(rank))
    order = [*draw(st.permutations(range(rank))), *(rank + n for n in range(len(blocks)))]
    compressed = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    values = mostly_zero(*shape, seed=draw(st.integers(0, 999)))
    return values, {"blocks": blocks, "order": order, "compressed": compressed}


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_every_layout_gives_its_array_back(drawn: tuple[Array, dict[str, Any]]) -> None:
    values, layout = drawn
    np.testing.assert_array_equal(expanded(sparse(values, **layout)), values)


ROWS = Sparsity((0, 1), (), (Level(2), Level(0, np.array([0, 1, 3]), np.array([2, 0, 1]))))


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (replace(ROWS, order=(0, 0)), r"levels \[0, 0\] are not those of \[2, 3\]"),
        (replace(ROWS, levels=ROWS.levels[:1]), "levels"),
        (replace(ROWS, levels=(Level(3), ROWS.levels[1])), "index lies outside the 2 positions"),
        (
            replace(ROWS, levels=(Level(2), Level(0, np.array([0, 1, 3]), np.array([3, 0, 1])))),
            "outside the 3",
        ),
        (replace(ROWS, levels=(Level(2), Level(0, np.array([0, 1]), np.array([0])))), "2 sparse segments"),
        (replace(ROWS, levels=(Level(2), Level(0, np.array([0, 1, 9]), np.array([0])))), "beyond 1 indices"),
        (
            replace(ROWS, levels=(Level(2), Level(0, np.array([0, 2, 1]), np.array([0, 1])))),
            "beyond 2 indices",
        ),
        (Sparsity((0, 1, 2), (1,), (*ROWS.levels, Level(2))), r"blocks of 2 do not divide \[2, 3\]"),
        (Sparsity((0, 1, 2), (5,), (*ROWS.levels, Level(1))), "blocks of 1 do not divide"),
    ],
)
def test_what_cannot_be_expanded_is_said(damaged: Sparsity, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        damaged.places((2, 3))


def test_as_many_values_as_places() -> None:
    stored = Weights.of(np.zeros(8, np.uint8))
    with pytest.raises(ValueError, match="2 values are stored for 3 places"):
        ROWS.dense(stored, (2, 3), "float32").load()

"""int8 and float16 weights: the numbers they stand for, and what the interpreters compute with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from msd import tflite
from msd.interpreter import Interpreter
from msd.ir import Build, Graph, Model, Tensor
from msd.quantize import SMALLEST, SMALLEST_SCALE, Encoding, encode, quantize_rows
from msd.weights import Weights
from tests.on_cpu import OldRuntimeRefuses, graph, normal, run, run_old

Array = np.ndarray[Any, Any]

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)), elements=FLOATS)


@settings(max_examples=200, deadline=None)
@given(ROWS)
def test_every_value_is_within_half_a_step(values: Array) -> None:
    stored, scale = quantize_rows(values)
    assert (stored.dtype, scale.dtype) == (np.int8, np.float32)
    assert (stored.shape, scale.shape) == (values.shape, values.shape[:1])
    assert stored.min() >= -127
    step = scale.astype(np.float64).reshape(-1, 1, 1)
    assert (np.abs(values - step * stored) <= step * 0.5 * (1 + 1e-5)).all()


@settings(max_examples=200, deadline=None)
@given(ROWS)
def test_the_largest_of_a_row_is_stored_as_127(values: Array) -> None:
    stored, scale = quantize_rows(values)
    for row, integers, step in zip(values, stored, scale, strict=True):
        amax = np.abs(row).max()
        if amax == 0:
            assert (step, integers.any()) == (1, False)
        elif amax >= 127 * SMALLEST_SCALE:
            assert step == amax / np.float32(127)
            assert np.abs(integers).max() == 127
        else:
            assert step == SMALLEST_SCALE


@pytest.mark.parametrize("tiny", [1e-45, 1e-40, 1.2e-38])
def test_rows_too_small_for_a_scale_stay_small(tiny: float) -> None:
    values = np.array([[tiny, -tiny / 3]], np.float32)
    stored, scale = quantize_rows(values)
    assert np.abs(stored * scale[:, None] - values).max() <= SMALLEST_SCALE / 2


def test_the_input_is_left_alone() -> None:
    values = normal(3, 5)
    values.flags.writeable = False
    quantize_rows(values)
    assert quantize_rows(values.astype(np.float16))[1].dtype == np.float32


def learnt(array: Array, name: str = "w") -> Weights:
    """Weights as they come from a checkpoint."""
    return Weights(array.shape, array.dtype, lambda: array, name)


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


def dequantised(kernel: Array) -> Array:
    stored, scale = quantize_rows(kernel)
    return stored.astype(np.float64) * scale.reshape(-1, *[1] * (kernel.ndim - 1))


def test_a_convolution_computes_with_the_dequantised_filter(tmp_path: Path) -> None:
    """On the GPU, that is: float inputs, weights brought to float."""
    made = conv_graph(learnt(KERNEL))
    assert encode(made, "int8") == Encoding(int8=1, float32=1)
    path = save(made, tmp_path)
    wanted = convolve(X, dequantised(KERNEL), 2) + np.arange(16)
    got = Interpreter(path, float_weights=True).run({"x": X})["y"]
    assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert np.abs(got - convolve(X, KERNEL, 2) - np.arange(16)).max() > 1e-3 * np.abs(wanted).max()


def test_the_int8_convolution_runs_as_it_is(tmp_path: Path) -> None:
    """The CPU quantises the input too, in both runtimes; one per cent is what that costs."""
    made = conv_graph(learnt(KERNEL))
    encode(made, "int8")
    path = save(made, tmp_path)
    wanted = convolve(X, KERNEL, 2) + np.arange(16)
    for got in (*run(path, X), *run_old(path, X)):
        assert np.sqrt(np.mean((got - wanted) ** 2)) < 0.01 * np.abs(wanted).max()


def test_what_is_stored_is_int8_with_a_scale_per_filter(tmp_path: Path) -> None:
    made = conv_graph(learnt(KERNEL))
    encode(made, "int8")
    conv = tflite.read(save(made, tmp_path)).main.ops[0]
    filters = conv.operands[1]
    stored, scale = quantize_rows(KERNEL)
    assert (filters.dtype, conv.version) == ("INT8", 5)
    assert filters.quant is not None
    assert filters.quant.axis == 0
    assert np.array_equal(filters.values(), stored)
    assert np.array_equal(filters.quant.scale, scale)
    assert filters.quant.zero_point.tolist() == [0] * 16


def test_a_higher_version_stays() -> None:
    made = conv_graph(learnt(KERNEL))
    made.ops[0].version = 6
    encode(made, "int8")
    assert made.ops[0].version == 6


TABLE = normal(97, 16, seed=3) * (np.arange(97, dtype=np.float32) % 7 + 1)[:, None]
IDS = np.array([5, 0, 96, 5, 31], np.int32)


def table_graph() -> Graph:
    new = Build()
    ids = Tensor("ids", IDS.shape, "INT32")
    y = new.EMBEDDING_LOOKUP(ids, new.const(learnt(TABLE), "table"))
    y.name = "y"
    return graph(new, [ids], [y])


def test_a_table_has_a_scale_per_row(tmp_path: Path) -> None:
    made = table_graph()
    assert encode(made, "int8") == Encoding(int8=1)
    assert made.ops[0].version == 4
    (got,) = run(save(made, tmp_path), IDS)
    assert np.abs(got - dequantised(TABLE)[IDS]).max() < 1e-6


def test_the_old_runtime_has_no_such_table(tmp_path: Path) -> None:
    """It ends at version 3, which knows one scale for the whole table."""
    made = table_graph()
    encode(made, "int8")
    with pytest.raises(
        OldRuntimeRefuses, match="Didn't find op for builtin opcode 'EMBEDDING_LOOKUP' version '4'"
    ):
        run_old(save(made, tmp_path), IDS)


def test_one_filter_of_two_convolutions_is_stored_once(tmp_path: Path) -> None:
    new = Build()
    x = Tensor("x", X.shape)
    weights = learnt(KERNEL)
    same = new.const(weights)
    bias = np.zeros(16, np.float32)
    a = new.CONV_2D(x, same, bias, padding="VALID", stride_h=1, stride_w=1)
    b = new.CONV_2D(x, same, bias, padding="VALID", stride_h=2, stride_w=2)
    c = new.CONV_2D(x, new.const(weights), bias, padding="VALID", stride_h=3, stride_w=3)
    made = graph(new, [x], [a, b, c])
    encode(made, "int8")
    assert [op.version for op in made.ops] == [5, 5, 5]
    path = save(made, tmp_path)
    assert path.stat().st_size < KERNEL.size + 4096
    for n, got in enumerate(Interpreter(path, float_weights=True).run({"x": X}).values()):
        wanted = convolve(X, dequantised(KERNEL), n + 1)
        assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_a_filter_that_something_else_reads_stays_float(tmp_path: Path) -> None:
    new = Build()
    x = Tensor("x", X.shape)
    filters = new.const(learnt(KERNEL))
    y = new.CONV_2D(x, filters, np.zeros(16, np.float32), stride_h=1, stride_w=1)
    made = graph(new, [x], [y, new.NEG(filters)])
    assert encode(made, "int8") == Encoding(float32=2)
    assert made.ops[0].version == 1
    assert np.array_equal(run(save(made, tmp_path), X)[1], -KERNEL)


def test_large_biases_stay_float() -> None:
    new = Build()
    x, bias = Tensor("x", (1, 4, 4, 2)), new.const(learnt(normal(SMALLEST)))
    y = new.CONV_2D(x, new.const(learnt(normal(SMALLEST, 1, 1, 2))), bias, stride_h=1, stride_w=1)
    assert encode(graph(new, [x], [y]), "int8") == Encoding(int8=1, float32=1)
    assert bias.dtype == "FLOAT32"


@pytest.mark.parametrize("weights", ["int8", "float16", "float32"])
def test_exact_and_small_numbers_stay_as_they_are(weights: str) -> None:
    made = conv_graph(Weights.of(KERNEL))
    assert encode(made, weights) == Encoding(float32=2)
    small = learnt(KERNEL[:, :, :1, :8])
    assert small.size < SMALLEST
    new = Build()
    x = Tensor("x", (1, 4, 4, 8))
    y = new.CONV_2D(x, new.const(small), np.zeros(16, np.float32), stride_h=1, stride_w=1)
    assert encode(graph(new, [x], [y]), weights) == Encoding(float32=2)


@pytest.mark.parametrize("weights", ["int8", "float16"])
def test_a_weight_that_is_returned_keeps_its_type(weights: str) -> None:
    """What a graph hands out is what its callers were promised."""
    new = Build()
    x, filters = Tensor("x", X.shape), new.const(learnt(KERNEL))
    y = new.CONV_2D(x, filters, np.zeros(16, np.float32), stride_h=1, stride_w=1)
    assert encode(graph(new, [x], [y, filters]), weights) == Encoding(float32=2)
    alone = Graph([], [new.const(learnt(KERNEL))])
    assert encode(alone, weights) == Encoding(float32=1)


def test_float16_weights_are_brought_back_to_float32(tmp_path: Path) -> None:
    made = conv_graph(learnt(KERNEL))
    assert encode(made, "float16") == Encoding(float16=1, float32=1)
    made.verify()
    assert [(op.kind, op.version) for op in made.ops] == [("DEQUANTIZE", 3), ("CONV_2D", 1)]
    path = save(made, tmp_path)
    wanted = convolve(X, KERNEL.astype(np.float16), 2) + np.arange(16)
    for got in (*run(path, X), *run_old(path, X)):
        assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_one_float16_weight_of_two_operators_is_brought_back_once(tmp_path: Path) -> None:
    new = Build()
    x, matrix = Tensor("x", (3, 40)), new.const(learnt(normal(32, 40)), "matrix")
    y = new.FULLY_CONNECTED(new.RELU(x), matrix, None)
    made = graph(new, [x], [y, new.NEG(matrix)])
    encode(made, "float16")
    made.verify()
    assert [op.kind for op in made.ops] == ["RELU", "DEQUANTIZE", "FULLY_CONNECTED", "NEG"]
    half = normal(32, 40).astype(np.float16).astype(np.float32)
    x_values = np.abs(normal(3, 40, seed=4))
    got = run(save(made, tmp_path), x_values)
    assert np.abs(got[0] - x_values @ half.T).max() < 1e-4
    assert np.array_equal(got[1], -half)


def test_what_float16_cannot_hold_becomes_its_largest_number(tmp_path: Path) -> None:
    values = np.full((32, 40), 1e6, np.float32) * np.where(np.arange(40) % 2, 1, -1).astype(np.float32)
    new = Build()
    made = graph(new, [], [new.NEG(new.const(learnt(values)))])
    encode(made, "float16")
    (got,) = run(save(made, tmp_path))
    assert np.unique(got).tolist() == [-65504, 65504]


def test_tables_stay_float32_beside_float16_weights(tmp_path: Path) -> None:
    made = table_graph()
    assert encode(made, "float16") == Encoding(float32=1)
    assert np.array_equal(run(save(made, tmp_path), IDS)[0], TABLE[IDS])


def test_float32_changes_nothing() -> None:
    made = conv_graph(learnt(KERNEL))
    before = str(made)
    assert encode(made, "float32") == Encoding(float32=2)
    assert str(made) == before


def test_nothing_is_computed_before_writing() -> None:
    """Only the description changes: the weights are not asked for."""

    def load() -> Array:
        raise AssertionError("loaded too early")

    for weights in ("int8", "float16", "float32"):
        encode(conv_graph(Weights(KERNEL.shape, KERNEL.dtype, load, "w")), weights)

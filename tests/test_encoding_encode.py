"""A recipe applied to a graph: what becomes what, and what the interpreters compute with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msd.compress.encoding.encode import SMALLEST
from msd.compress.encoding.quantize import encoder
from msd.compress.encoding.recipe import Line
from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.parity import psnr
from msd.measure.report.witness import witnesses
from msd.run.runners.backends.tflite_runtime import TfliteRuntime
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.runner import Conditions
from tests.layers import (
    IDS,
    KERNEL,
    TABLE,
    Array,
    X,
    conv_graph,
    convolve,
    encode,
    learnt,
    recipe,
    save,
    table_graph,
)
from tests.on_cpu import OldRuntimeRefuses, graph, normal, run, run_old

quantize_rows = encoder("int8")


def dequantised(kernel: Array) -> Array:
    stored, scale = quantize_rows(Weights.of(kernel))
    return stored.astype(np.float64) * scale.reshape(-1, *[1] * (kernel.ndim - 1))


def test_a_convolution_computes_with_the_dequantised_filter(tmp_path: Path) -> None:
    """On the GPU, that is: float inputs, weights brought to float."""
    made = conv_graph(learnt(KERNEL))
    assert encode(made, "gpu-w8") == {"FLOAT32": 1, "INT8": 1}
    path = save(made, tmp_path)
    wanted = convolve(X, dequantised(KERNEL), 2) + np.arange(16)
    got = Interpreter(path, float_weights=True).run({"x": X})["y"]
    assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert np.abs(got - convolve(X, KERNEL, 2) - np.arange(16)).max() > 1e-3 * np.abs(wanted).max()


def test_the_int8_convolution_runs_as_it_is(tmp_path: Path) -> None:
    """The CPU quantises the input too, in both runtimes; one per cent is what that costs."""
    made = conv_graph(learnt(KERNEL))
    encode(made, "gpu-w8")
    path = save(made, tmp_path)
    wanted = convolve(X, KERNEL, 2) + np.arange(16)
    for got in (*run(path, X), *run_old(path, X)):
        assert np.sqrt(np.mean((got - wanted) ** 2)) < 0.01 * np.abs(wanted).max()


def test_what_is_stored_is_int8_with_a_scale_per_filter(tmp_path: Path) -> None:
    made = conv_graph(learnt(KERNEL))
    encode(made, "gpu-w8")
    conv = tflite.read(save(made, tmp_path)).main.ops[0]
    filters = conv.operands[1]
    stored, scale = quantize_rows(Weights.of(KERNEL))
    assert (filters.dtype, conv.version) == ("INT8", 5)
    assert filters.quant is not None
    assert filters.quant.axis == 0
    assert np.array_equal(filters.values(), stored)
    assert np.array_equal(filters.quant.scale, scale)
    assert filters.quant.zero_point.tolist() == [0] * 16


def test_a_higher_version_stays() -> None:
    made = conv_graph(learnt(KERNEL))
    made.ops[0].version = 6
    encode(made, "gpu-w8")
    assert made.ops[0].version == 6


def test_a_table_has_a_scale_per_row(tmp_path: Path) -> None:
    made = table_graph()
    assert encode(made, "gpu-w8") == {"INT8": 1}
    assert made.ops[0].version == 4
    (got,) = run(save(made, tmp_path), IDS)
    assert np.abs(got - dequantised(TABLE)[IDS]).max() < 1e-6


def test_the_old_runtime_has_no_such_table(tmp_path: Path) -> None:
    """It ends at version 3, which knows one scale for the whole table."""
    made = table_graph()
    encode(made, "gpu-w8")
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
    encode(made, "gpu-w8")
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
    assert encode(made, "gpu-w8") == {"FLOAT32": 2}
    assert made.ops[0].version == 1
    assert np.array_equal(run(save(made, tmp_path), X)[1], -KERNEL)


def test_large_biases_stay_float() -> None:
    new = Build()
    x, bias = Tensor("x", (1, 4, 4, 2)), new.const(learnt(normal(SMALLEST)))
    y = new.CONV_2D(x, new.const(learnt(normal(SMALLEST, 1, 1, 2))), bias, stride_h=1, stride_w=1)
    assert encode(graph(new, [x], [y]), "gpu-w8") == {"FLOAT32": 1, "INT8": 1}
    assert bias.dtype == "FLOAT32"


@pytest.mark.parametrize("name", ["gpu-w8", "float16", "float32"])
def test_exact_and_small_numbers_stay_as_they_are(name: str) -> None:
    made = conv_graph(Weights.of(KERNEL))
    assert encode(made, name) == {"FLOAT32": 2}
    small = learnt(KERNEL[:, :, :1, :8])
    assert small.size < SMALLEST
    new = Build()
    x = Tensor("x", (1, 4, 4, 8))
    y = new.CONV_2D(x, new.const(small), np.zeros(16, np.float32), stride_h=1, stride_w=1)
    assert encode(graph(new, [x], [y]), name) == {"FLOAT32": 2}


@pytest.mark.parametrize("name", ["gpu-w8", "float16"])
def test_a_weight_that_is_returned_keeps_its_type(name: str) -> None:
    """What a graph hands out is what its callers were promised."""
    new = Build()
    x, filters = Tensor("x", X.shape), new.const(learnt(KERNEL))
    y = new.CONV_2D(x, filters, np.zeros(16, np.float32), stride_h=1, stride_w=1)
    assert encode(graph(new, [x], [y, filters]), name) == {"FLOAT32": 2}
    alone = Graph([], [new.const(learnt(KERNEL))])
    assert encode(alone, name) == {"FLOAT32": 1}


def test_float16_weights_are_brought_back_to_float32(tmp_path: Path) -> None:
    made = conv_graph(learnt(KERNEL))
    assert encode(made, "float16") == {"FLOAT16": 1, "FLOAT32": 1}
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
    assert encode(made, "float16") == {"FLOAT32": 1}
    assert np.array_equal(run(save(made, tmp_path), IDS)[0], TABLE[IDS])


def test_float32_changes_nothing() -> None:
    made = conv_graph(learnt(KERNEL))
    before = str(made)
    assert encode(made, "float32") == {"FLOAT32": 2}
    assert str(made) == before


def test_nothing_is_computed_before_writing() -> None:
    """Only the description changes: the weights are not asked for."""

    def load() -> Array:
        raise AssertionError("loaded too early")

    for name in ("gpu-w8", "float16", "float32"):
        encode(conv_graph(Weights(KERNEL.shape, KERNEL.dtype, load, "w")), name)


@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("store", ["int8", "int4"])
def test_integers_through_a_dequantize(store: str, granularity: str, tmp_path: Path) -> None:
    """The CPU computes in float32, without bringing anything to float itself."""
    made = conv_graph(learnt(KERNEL))
    encode(made, recipe(Line(store, granularity=granularity, explicit=True)))
    made.verify()
    versions = {"int8": 2, "int4": 6}
    assert [(op.kind, op.version) for op in made.ops] == [("DEQUANTIZE", versions[store]), ("CONV_2D", 1)]
    path = save(made, tmp_path)
    stored, scale = encoder(store, granularity, "auto")(Weights.of(KERNEL))
    wanted = convolve(X, stored * scale.astype(np.float64).reshape(-1, 1, 1, 1), 2) + np.arange(16)
    results = [*run(path, X), *Interpreter(path).run({"x": X}).values()]
    results += run_old(path, X) if store == "int8" else []
    for got in results:
        assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize(
    "kernel", [KERNEL, KERNEL[:15, :1, :1, :21], KERNEL[:, :1]], ids=["3x2", "odd", "1x2"]
)
@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("store", ["int8", "int4"])
def test_a_convolution_computes_with_what_is_stored(
    store: str, granularity: str, kernel: Array, tmp_path: Path
) -> None:
    kernel = np.resize(kernel, (max(len(kernel), -(-SMALLEST // kernel[0].size)) | 1, *kernel.shape[1:]))
    x = X[..., : kernel.shape[3]]
    new, source = Build(), Tensor("x", x.shape)
    bias = np.arange(len(kernel), dtype=np.float32)
    y = new.CONV_2D(source, new.const(learnt(kernel)), bias, padding="VALID", stride_h=1, stride_w=1)
    made = graph(new, [source], [y])
    assert encode(made, recipe(Line(store, granularity=granularity)))[store.upper()] == 1
    assert made.ops[0].version == (5 if granularity == "channel" else 2)
    stored, scale = encoder(store, granularity, "auto")(Weights.of(kernel))
    wanted = convolve(x, stored * scale.astype(np.float64).reshape(-1, 1, 1, 1), 1) + bias
    (got,) = Interpreter(save(made, tmp_path), float_weights=True).run({"x": x}).values()
    assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_the_old_runtime_takes_int4_filters_for_floats(tmp_path: Path) -> None:
    """Without a word: no version that the GPU delegates take says that a filter is int4."""
    made = conv_graph(learnt(KERNEL))
    encode(made, recipe(Line("int4")))
    path = save(made, tmp_path)
    wanted = convolve(X, KERNEL, 2) + np.arange(16)
    (new,), (old,) = run(path, X), run_old(path, X)
    assert psnr(wanted, new) > 25
    assert not psnr(wanted, old) > 5
    runtime = witnesses(path, 60)[0]
    assert (runtime.ok, runtime.says) == (
        False,
        "loads and runs it, but takes the int4 weights filters for float32",
    )
    with pytest.raises(
        BadModelFile,
        match=r"misreads .*: it takes the int4 weights filters for float32; it runs files of the",
    ):
        TfliteRuntime(path, Conditions(float_weights=False))
    with pytest.raises(BadModelFile, match="it has no DEQUANTIZE of version 6; it runs files of the recipes"):
        TfliteRuntime(path, Conditions())


def test_a_table_of_int4(tmp_path: Path) -> None:
    made = table_graph()
    assert encode(made, recipe(Line("int4"))) == {"INT4": 1}
    assert made.ops[0].version == 4
    stored, scale = encoder("int4", "channel", "auto")(Weights.of(TABLE))
    (got,) = run(save(made, tmp_path), IDS)
    assert np.abs(got - (stored * scale[:, None])[IDS]).max() < 1e-6


def test_int4_takes_half_a_byte(tmp_path: Path) -> None:
    sizes = {}
    for store in ("float32", "float16", "int8", "int4"):
        made = conv_graph(learnt(normal(16, 7, 5, 24)))
        encode(made, recipe(Line(store)))
        sizes[store] = save(made, tmp_path).stat().st_size
    each = 16 * 7 * 5 * 24
    for store, size in (("float32", 4), ("float16", 2), ("int8", 1), ("int4", 0.5)):
        assert abs(sizes[store] - each * size) < 2000

"""Weights brought to float32: the CPU then computes what NumPy does with the dequantised weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Quant, Tensor
from msd.graph.ir.float_weights import dequantize_weights, reads_integer_weights
from msd.graph.ir.weights import Weights
from msd.run.runners.interpreter import Interpreter
from tests import edited_models, tiny_models


def stored(name: str) -> np.ndarray[Any, Any]:
    """Return the float values of the int8 weight of a model's first operation, in float64."""
    edited = edited_models.unpacked(name)
    graph = edited.subgraphs[0]
    weight = graph.tensors[graph.operators[0].inputs[1]]
    values = edited.buffers[weight.buffer].data.view(np.int8).reshape(weight.shape)
    scale = np.asarray(weight.quantization.scale, np.float64)
    return values * scale.reshape(-1, *[1] * (values.ndim - 1))


def convolve(x: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the same-padded convolution of NHWC `x` with an OHWI `kernel`, both odd-sized."""
    high, wide = kernel.shape[1] // 2, kernel.shape[2] // 2
    padded = np.pad(x, ((0, 0), (high, high), (wide, wide), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[1:3], axis=(1, 2))
    return np.einsum("nyxcij,oijc->nyxo", windows, kernel)


def test_which_files_compute_with_integer_weights(tmp_path: Path) -> None:
    found = {
        name: reads_integer_weights(tflite.read(tiny_models.save(name, tmp_path)))
        for name in ("conv_int8", "dense_int8", "conv_float16", "dense_float32", "tokens")
    }
    assert [name for name, reads in found.items() if reads] == ["conv_int8", "dense_int8"]


def test_a_convolution(tmp_path: Path) -> None:
    path = tiny_models.save("conv_int8", tmp_path)
    x = np.random.default_rng(1).standard_normal((1, 8, 6, 24)).astype(np.float32)
    wanted = convolve(x.astype(np.float64), stored("conv_int8"))
    floats = Interpreter(path, float_weights=True).run({"x0": x})["y"]
    plain = Interpreter(path).run({"x0": x})["y"]
    assert np.abs(floats - wanted).max() < 1e-5
    assert np.abs(plain - wanted).max() > 1e-3, "dynamic-range arithmetic is not what this is about"


def test_a_fully_connected_layer_in_int8_and_int4(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 7, 64)).astype(np.float32)
    path = tiny_models.save("dense_int8", tmp_path)
    got = Interpreter(path, float_weights=True).run({"x0": x})["y"]
    assert np.abs(got - x @ stored("dense_int8").T).max() < 1e-5
    content, matrix = edited_models.int4("dense_int8")
    path.write_bytes(content)
    got = Interpreter(path, float_weights=True).run({"x0": x})["y"]
    assert np.abs(got - x @ matrix.T).max() < 1e-5


def test_float16_that_nothing_brings_to_float32(tmp_path: Path) -> None:
    """The CPU would read such weights as if they were float32, with float weights or without."""
    path = tmp_path / "raw.tflite"
    path.write_bytes(edited_models.raw_float16("conv_float32"))
    x = np.random.default_rng(1).standard_normal((1, 8, 6, 24)).astype(np.float32)
    wanted = Interpreter(tiny_models.save("conv_float32", tmp_path)).run({"x0": x})["y"]
    for float_weights in (True, False):
        got = Interpreter(path, float_weights=float_weights).run({"x0": x})["y"]
        assert np.abs(got - wanted).max() < 1e-2


def given(path: Path) -> int:
    return dequantize_weights(tflite.read(path))


def test_weights_stay_small_and_one_operation_is_added(tmp_path: Path) -> None:
    path = tiny_models.save("conv_int8", tmp_path)
    model = tflite.read(path)
    assert dequantize_weights(model) == 1
    assert [op.kind for op in model.main.ops] == ["DEQUANTIZE", "CONV_2D"]
    tflite.write(model, tmp_path / "float.tflite")
    assert (tmp_path / "float.tflite").stat().st_size < path.stat().st_size + 500


def test_weights_outside_the_flatbuffer(tmp_path: Path) -> None:
    """So a file of over 2 GB keeps them: written, read, given float weights, written again and run."""
    path, outside = tiny_models.save("conv_int8", tmp_path), tmp_path / "outside.tflite"
    tflite.write(tflite.read(path), outside, largest_flatbuffer=0)
    x = np.random.default_rng(1).standard_normal((1, 8, 6, 24)).astype(np.float32)
    wanted = Interpreter(path, float_weights=True).run({"x0": x})["y"]
    got = Interpreter(outside, float_weights=True).run({"x0": x})["y"]
    np.testing.assert_array_equal(got, wanted)


def test_the_file_made_for_it_is_gone_when_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, made = tiny_models.save("conv_int8", tmp_path), tmp_path / "made"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    model = Interpreter(path, float_weights=True)
    assert list(made.iterdir()) == []
    assert np.isfinite(model.run({"x0": np.ones((1, 8, 6, 24), np.float32)})["y"]).all()


@pytest.mark.parametrize("name", ["whole", "conv_float32", "conv_float16", "tokens"])
def test_float_models_are_left_alone(name: str, tmp_path: Path) -> None:
    assert given(tiny_models.save(name, tmp_path)) == 0


@pytest.mark.parametrize("scales", [1, 23])
def test_a_lookup_needs_no_help(scales: int, tmp_path: Path) -> None:
    path = tmp_path / "lookup.tflite"
    path.write_bytes(edited_models.lookup(scales))
    assert given(path) == 0


def test_explicit_weights_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "explicit.tflite"
    path.write_bytes(edited_models.explicit_dequantize("conv_int8", 2))
    assert given(path) == 0


def test_a_weight_used_twice_is_brought_to_float_once() -> None:
    new, x = Build(), Tensor("x", (1, 5, 3, 4))
    weight = Tensor("w", (4, 1, 1, 4), "INT8", Weights.of(np.eye(4, dtype=np.int8).reshape(4, 1, 1, 4)))
    weight.quant = Quant(np.ones(4, np.float32), np.zeros(4, np.int64))
    bias = new.const(np.zeros(4, np.float32))
    step = {"stride_h": 1, "stride_w": 1}
    y = new.CONV_2D(new.CONV_2D(x, weight, bias, **step), weight, bias, **step)
    graph = Graph([x], [y], new.ops)
    assert dequantize_weights(Model([graph])) == 1
    graph.verify()
    assert [op.kind for op in graph.ops] == ["DEQUANTIZE", "CONV_2D", "CONV_2D"]

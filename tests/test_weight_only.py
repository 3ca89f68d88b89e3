"""Weights brought to float32: the CPU then computes what NumPy does with the dequantised weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.errors import BadModelFile
from msd.interpreter import Interpreter
from msd.structure import read
from msd.weight_only import float_weights
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
    """The CPU reads such weights as if they were float32."""
    path = tmp_path / "raw.tflite"
    path.write_bytes(edited_models.raw_float16("conv_float32"))
    x = np.random.default_rng(1).standard_normal((1, 8, 6, 24)).astype(np.float32)
    wanted = Interpreter(tiny_models.save("conv_float32", tmp_path)).run({"x0": x})["y"]
    got = Interpreter(path, float_weights=True).run({"x0": x})["y"]
    assert np.abs(got - wanted).max() < 1e-2
    assert not np.abs(Interpreter(path).run({"x0": x})["y"] - wanted).max() < 1


def test_weights_stay_small_and_one_operation_is_added(tmp_path: Path) -> None:
    path = tiny_models.save("conv_int8", tmp_path)
    content = float_weights(path)
    assert content is not None
    assert len(content) < path.stat().st_size + 500
    path.write_bytes(content)
    assert read(path).operations == ("DEQUANTIZE", "CONV_2D")


@pytest.mark.parametrize("name", ["whole", "conv_float32", "conv_float16", "tokens"])
def test_float_models_are_left_alone(name: str, tmp_path: Path) -> None:
    assert float_weights(tiny_models.save(name, tmp_path)) is None


@pytest.mark.parametrize("scales", [1, 23])
def test_a_lookup_needs_no_help(scales: int, tmp_path: Path) -> None:
    path = tmp_path / "lookup.tflite"
    path.write_bytes(edited_models.lookup(scales))
    assert float_weights(path) is None


def test_explicit_weights_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "explicit.tflite"
    path.write_bytes(edited_models.explicit_dequantize("conv_int8", 2))
    assert float_weights(path) is None


def test_weights_outside_the_flatbuffer_are_refused(tmp_path: Path) -> None:
    edited = edited_models.unpacked("conv_int8")
    edited.buffers[-1].offset, edited.buffers[-1].size = 4096, 16
    path = tmp_path / "outside.tflite"
    path.write_bytes(edited_models.packed(edited))
    with pytest.raises(BadModelFile, match="keeps weights outside its flatbuffer"):
        float_weights(path)


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    edited = edited_models.unpacked("conv_int8")
    edited.subgraphs[0].operators[0].opcodeIndex = 99
    path = tmp_path / "damaged.tflite"
    path.write_bytes(edited_models.packed(edited))
    with pytest.raises(BadModelFile, match="damaged"):
        float_weights(path)

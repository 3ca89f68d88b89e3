"""Running a file on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msd.errors import BadModelFile
from msd.graph import tflite
from msd.run.runners.interpreter import Interpreter, require_loadable
from tests import edited_models, tiny_models


def test_outputs_by_name_equal_tensorflows(tmp_path: Path) -> None:
    import tensorflow as tf

    generator = np.random.default_rng(2)
    x, t = (generator.standard_normal(s).astype(np.float32) for s in ((1, 9, 7, 4), (1, 1, 1, 4)))
    got = Interpreter(tiny_models.save("two_by_two", tmp_path), threads=1).run({"x1": t, "x0": x})
    np.testing.assert_allclose(got["a"], np.maximum(x, 0) + t, atol=1e-6)
    wanted = tf.tanh(tf.nn.conv2d(x, tiny_models.normal(3, 3, 4, 8), 1, "SAME")).numpy()
    np.testing.assert_allclose(got["b"], wanted, atol=1e-6)


def test_a_model_without_a_signature(tmp_path: Path) -> None:
    path = tmp_path / "plain.tflite"
    path.write_bytes(edited_models.without_signature("two_by_two"))
    model, named = Interpreter(path), Interpreter(tiny_models.save("two_by_two", tmp_path))
    x, t = np.ones((1, 9, 7, 4), np.float32), np.full((1, 1, 1, 4), 2, np.float32)
    got = model.run({"serving_default_x0:0": x, "serving_default_x1:0": t})
    wanted = named.run({"x0": x, "x1": t})
    assert sorted(float(v.sum()) for v in got.values()) == pytest.approx(
        sorted(float(v.sum()) for v in wanted.values())
    )


def test_it_runs_many_times_and_keeps_no_state(tmp_path: Path) -> None:
    model = Interpreter(tiny_models.save("copy_only", tmp_path))
    first = model.run({"x0": np.full(tiny_models.SHAPE, 3, np.float32)})["y"]
    model.run({"x0": np.full(tiny_models.SHAPE, 5, np.float32)})
    np.testing.assert_array_equal(first, np.full(tiny_models.SHAPE, 3, np.float32))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, r"takes the inputs \['x0'\], not \[\]"),
        ({"x": np.zeros(3)}, r"takes the inputs \['x0'\], not \['x'\]"),
        ({"x0": np.zeros((1, 9, 7, 5), np.float32)}, r"float32\[1, 9, 7, 4\], not float32\[1, 9, 7, 5\]"),
        ({"x0": np.zeros(tiny_models.SHAPE)}, r"float32\[1, 9, 7, 4\], not float64\[1, 9, 7, 4\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: dict[str, np.ndarray], words: str, tmp_path: Path
) -> None:
    model = Interpreter(tiny_models.save("copy_only", tmp_path))
    with pytest.raises(BadModelFile, match=words):
        model.run(inputs)


def test_a_model_the_cpu_cannot_prepare_is_refused(tmp_path: Path) -> None:
    edited = edited_models.unpacked("conv_float32")
    edited.subgraphs[0].operators[0].inputs = edited.subgraphs[0].operators[0].inputs[:2]
    path = tmp_path / "no_bias.tflite"
    path.write_bytes(edited_models.packed(edited))
    with pytest.raises(BadModelFile, match="cannot be loaded on the CPU"):
        Interpreter(path)


def test_an_id_outside_its_table_is_refused(tmp_path: Path) -> None:
    model = Interpreter(tiny_models.save("tokens", tmp_path))
    with pytest.raises(BadModelFile, match=r"failed on the CPU: .*index out of bounds"):
        model.run({"x0": np.full(6, 23, np.int32)})


def test_a_version_that_litert_does_not_know_is_not_loadable(tmp_path: Path) -> None:
    path = tiny_models.save("two_by_two", tmp_path)
    require_loadable(path)
    model = tflite.read(path)
    model.main.ops[-1].version = 99
    tflite.write(model, tmp_path / "newer.tflite")
    with pytest.raises(BadModelFile, match=r"newer\.tflite cannot be loaded .* version '99'"):
        require_loadable(tmp_path / "newer.tflite")


def test_a_cut_file_is_not_loadable(tmp_path: Path) -> None:
    path = tiny_models.save("two_by_two", tmp_path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(BadModelFile, match="cannot be loaded"):
        require_loadable(path)

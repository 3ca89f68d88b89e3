"""Tracing gives a structure that computes what the Keras model computes, and never a variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from msd.files.packages import load_triton
from msd.models.structure import Structure, VariableSpec
from msd.models.trace import trace

IMAGE = {"image": ((2, 5, 7, 8), "float32")}


def convolution() -> Any:
    """Return a functional model of an image, with two outputs and automatic layer names."""
    import keras

    image = keras.Input(batch_shape=(2, 5, 7, 8), name="image")
    x = keras.layers.Conv2D(6, 3, padding="same")(image)
    x = keras.layers.GroupNormalization(2)(x)
    return keras.Model(image, {"wide": x, "narrow": keras.layers.Dense(3)(x)})


def outputs(structure: Structure, inputs: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    """Return what LiteRT computes from `inputs`, by name, and `weights`, by the variable's path."""
    interpreter = Interpreter(model_content=structure.flatbuffer, num_threads=1)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        name = detail["name"]
        value = inputs[name] if name in structure.inputs else weights[structure.variables[name].path]
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    found = {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}
    return {name: found[name] for name in structure.outputs}


def operators(structure: Structure) -> set[str]:
    """Return the names of the structure's operators."""
    interpreter = Interpreter(model_content=structure.flatbuffer)
    return {op["op_name"] for op in interpreter._get_ops_details()}


def normal(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape, dtype=np.float32)


def test_structure_computes_what_the_model_computes() -> None:
    structure = trace(convolution, IMAGE)
    assert structure.inputs == ("image",)
    assert structure.outputs == ("wide", "narrow")
    assert [v.shape for v in structure.variables.values()] == [(3, 3, 8, 6), (6,), (6,), (6,), (6, 3), (3,)]
    model = convolution()
    specs = list(structure.variables.values())
    weights = {spec.path: normal(spec.shape) for spec in specs}
    for variable, spec in zip(model.variables, specs, strict=True):
        variable.assign(weights[spec.path])
    image = normal((2, 5, 7, 8))
    wanted = model(image)
    for name, found in outputs(structure, {"image": image}, weights).items():
        np.testing.assert_allclose(found, wanted[name], rtol=1e-4, atol=1e-5)


def test_a_list_of_inputs_is_given_by_name() -> None:
    def build() -> Any:
        import keras

        a, b = (keras.Input(batch_shape=(3, 4), name=name) for name in "ab")
        return keras.Model([a, b], a - 2 * b)

    # In another order than the model's.
    structure = trace(build, {"b": ((3, 4), "float32"), "a": ((3, 4), "float32")})
    assert structure.inputs == ("b", "a")
    a, b = normal((3, 4)), normal((3, 4))[::-1].copy()
    (found,) = outputs(structure, {"a": a, "b": b}, {}).values()
    np.testing.assert_allclose(found, a - 2 * b, rtol=1e-6)


def test_a_callable_is_called_with_keywords() -> None:
    def build() -> Callable[..., Any]:
        import keras

        layer = keras.layers.Dense(5, name="late")
        return lambda x, y: [layer(x), layer(y) * 2]

    shapes = {"x": ((2, 3), "float32"), "y": ((2, 3), "float32")}
    structure = trace(build, shapes)
    assert set(structure.variables.values()) == {
        VariableSpec("late/kernel", (3, 5)),
        VariableSpec("late/bias", (5,)),
    }
    kernel, bias, x = normal((3, 5)), normal((5,)), normal((2, 3))
    first, second = outputs(structure, {"x": x, "y": -x}, {"late/kernel": kernel, "late/bias": bias}).values()
    np.testing.assert_allclose(first, x @ kernel + bias, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, 2 * (bias - x @ kernel), rtol=1e-5, atol=1e-5)


def test_a_layer_made_anew_at_each_call_is_refused() -> None:
    def build() -> Callable[..., Any]:
        import keras

        return lambda image: keras.layers.Dense(2)(image)

    with pytest.raises(ValueError, match="only when it is called"):
        trace(build, IMAGE)


def test_no_variable_is_ever_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras
    from keras.src.backend.common.variables import initialize_all_variables

    allocated = []
    original = keras.Variable._initialize

    def note(self: Any, value: Any) -> None:
        allocated.append(self.path)
        original(self, value)

    monkeypatch.setattr(keras.Variable, "_initialize", note)
    trace(convolution, IMAGE)
    initialize_all_variables()
    assert allocated == []
    convolution()
    assert len(allocated) == 6


def test_the_same_model_gives_the_same_bytes() -> None:
    assert trace(convolution, IMAGE) == trace(convolution, IMAGE)


def test_exact_gelu_is_one_operator() -> None:
    def build() -> Callable[..., Any]:
        import keras

        return lambda x: keras.ops.gelu(x, approximate=False)

    structure = trace(build, {"x": ((1, 101), "float32")})
    assert operators(structure) == {"GELU"}
    x = np.linspace(-6, 6, 101, dtype=np.float32)[None]
    (found,) = outputs(structure, {"x": x}, {}).values()
    from math import erf

    np.testing.assert_allclose(found, [[v * (1 + erf(v / 2**0.5)) / 2 for v in x[0].tolist()]], atol=2e-6)


FULL_SIZE = """
import pathlib, tomllib
from msd.run.runners.peak_memory import peak_rss
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.networks import networks, read_configs, size_of
from msd.models.trace import trace

configs = read_configs(STABLE_DIFFUSION, tomllib.loads(pathlib.Path("configs/models/sd21.toml").read_text()))
network = networks(STABLE_DIFFUSION, configs, size_of(STABLE_DIFFUSION, configs))["unet"]
structure = trace(network.build, network.inputs)
elements = sum(__import__("math").prod(v.shape) for v in structure.variables.values())
print(elements, len(structure.flatbuffer), peak_rss())
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return what a fresh Python made of `code` in the root of the repository."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONPATH": ".", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_full_unet_takes_little_memory_and_says_nothing() -> None:
    done = run(FULL_SIZE)
    assert (done.returncode, done.stderr) == (0, "")
    elements, size, peak = map(int, done.stdout.split())
    assert elements == 865_910_724
    assert size < 1 << 20
    assert peak < 1.5e9 < 4 * elements


def test_keras_set_otherwise_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text(json.dumps({"floatx": "float16"}))
    done = run("from msd.models.trace import trace; trace(lambda: None, {})", KERAS_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "BadConfig: Keras is set to ('tensorflow', 'channels_last', 'float16')" in done.stderr


def test_triton_is_imported_before_tensorflow(tmp_path: Path) -> None:
    """The other way round the real one ends the process; this is a stand-in for it."""
    (tmp_path / "triton.py").write_text("")
    code = "import sys; from msd.models.trace import _import_quietly; _import_quietly(); print(*sys.modules)"
    order = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert order.index("triton") < order.index("tensorflow")


def test_a_triton_that_does_not_load_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "triton.py").write_text("raise ImportError('built for another Python')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    load_triton()
    assert "triton" not in sys.modules

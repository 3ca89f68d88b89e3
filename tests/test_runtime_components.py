"""One network as rows in, rows out, on the real interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from msd.bundle import Bundle, ConvertedFile, open_bundle
from msd.errors import BadBundle, BadModelFile
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import LoadedNetwork, open_component
from msd.tensor_spec import TensorSpec
from tests import stand_in

CPU = Engine(find_backend("cpu"), Conditions(threads=1))
TIME = {"timestep": np.array(321, np.float32)}


def rows(count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(count)
    return {
        "latent": random.standard_normal((count, 4, 6, 4), np.float32),
        "context": random.standard_normal((count, 77 * 5), np.float32),
    }


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    context = inputs["context"].reshape(-1, 1, 77, 5)
    return stand_in.unet(inputs["latent"], TIME["timestep"], context).reshape(len(context), -1)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_rows_come_back_in_order_whatever_the_batch(
    count: int, batch: int, bundle_folder: Path, batch_two_folder: Path
) -> None:
    bundle = open_bundle(bundle_folder if batch == 1 else batch_two_folder)
    inputs = rows(count)
    with open_component(bundle, "unet", CPU) as unet:
        noise = unet.rows("noise", inputs, TIME)
    assert noise.shape == (count, 4 * 6 * 4)
    np.testing.assert_allclose(noise, expected(inputs), rtol=0, atol=2e-6)


def test_a_batch_of_two_halves_the_runs(batch_two_folder: Path) -> None:
    description = open_bundle(batch_two_folder).component("unet")
    runs: list[int] = []

    class Counting(Interpreter):
        def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            runs.append(len(inputs["latent"]))
            return super().run(inputs)

    with Counting(batch_two_folder / "unet.tflite") as session:
        LoadedNetwork("unet", description, session).rows("noise", rows(2), TIME)
    assert runs == [2]


def test_float_weights_leave_the_inputs_exact(tmp_path: Path) -> None:
    """A convolution with int8 weights: the CPU alone rounds its input to 8 bits too."""
    import tensorflow as tf

    kernel = np.random.default_rng(1).normal(size=(1, 1, 48, 40)).astype(np.float32)
    function = tf.function(lambda x: tf.nn.conv2d(x, kernel, 1, "SAME"))
    spec = tf.TensorSpec((1, 3, 5, 48), "float32", "x")
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function(spec)], function
    )
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    path = tmp_path / "conv.tflite"
    path.write_bytes(converter.convert())
    x = np.random.default_rng(2).normal(size=(1, 3, 5, 48)).astype(np.float32)
    scale = np.abs(kernel).max((0, 1, 2)) / 127
    exact = np.einsum("bhwi,xyio->bhwo", x, np.round(kernel / scale) * scale)
    worst = {}
    for float_weights in (False, True):
        with replace(CPU, conditions=Conditions(float_weights=float_weights)).load(path) as session:
            (output,) = session.run({"x": x}).values()
        worst[float_weights] = np.abs(output - exact).max() / np.abs(exact).max()
    assert worst[True] <= 1e-5
    assert worst[False] >= 1e-3


def test_shapes_by_name(bundle_folder: Path) -> None:
    with open_component(open_bundle(bundle_folder), "vae_decoder", CPU) as decoder:
        assert decoder.shape("latent") == (1, 4, 6, 4)
        assert decoder.shape("image") == (1, 32, 48, 3)
        with pytest.raises(
            BadBundle, match=r"vae_decoder should have a tensor 'noise'; it has \['image', 'latent'\]"
        ):
            decoder.shape("noise")


def test_refuses_inputs_of_other_names(bundle_folder: Path) -> None:
    with (
        open_component(open_bundle(bundle_folder), "unet", CPU) as unet,
        pytest.raises(
            BadBundle, match=r"unet should take \['latent'\], not \['context', 'latent', 'timestep'\]"
        ),
    ):
        unet.rows("noise", {"latent": np.zeros((1, 4, 6, 4), np.float32)})


def test_refuses_rows_of_another_size(bundle_folder: Path) -> None:
    wide = rows(1) | {"context": np.zeros((1, 77 * 6), np.float32)}
    double = rows(1) | {"context": np.zeros((1, 77), np.float32)}
    twice = {"timestep": np.zeros(2, np.float32)}
    with open_component(open_bundle(bundle_folder), "unet", CPU) as unet:
        for inputs, time in ((wide, TIME), (double, TIME), (rows(1), twice)):
            with pytest.raises(BadBundle, match=r"unet takes .* which rows of .* elements do not fit"):
                unet.rows("noise", inputs, time)


def test_refuses_a_manifest_with_another_output(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    lying = replace(
        bundle.component("vae_decoder"), outputs=(TensorSpec("photo", (1, 8, 8, 3), "float32", ""),)
    )
    with CPU.load(bundle.path("vae_decoder")) as session:
        decoder = LoadedNetwork("vae_decoder", lying, session)
        with pytest.raises(BadBundle, match=r"gives \['image'\], not 'photo' as its manifest says"):
            decoder.rows("photo", {"latent": np.zeros((1, 4, 6, 4), np.float32)})


def test_refuses_a_file_that_is_no_model(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "unet.tflite").write_bytes(b"\0\0\0\0TFL3" + b"\0" * 64)
    bundle = Bundle(tmp_path, open_bundle(bundle_folder).manifest)
    with pytest.raises(BadModelFile, match=r"unet\.tflite"), open_component(bundle, "unet", CPU):
        pass


@pytest.mark.parametrize(
    "inputs",
    [(TensorSpec("latent", (1, 6, 4, 4), "float32", ""),), (TensorSpec("x", (1, 4, 6, 4), "float32", ""),)],
)
def test_refuses_a_manifest_that_describes_another_file(
    inputs: tuple[TensorSpec, ...], bundle_folder: Path
) -> None:
    bundle = open_bundle(bundle_folder)
    lying: ConvertedFile = replace(bundle.component("vae_decoder"), inputs=inputs)
    with Interpreter(bundle.path("vae_decoder")) as session:
        decoder = LoadedNetwork("vae_decoder", lying, session)
        with pytest.raises(BadModelFile, match="takes"):
            decoder.rows("image", {inputs[0].name: np.zeros((1, 6, 4, 4), np.float32)})

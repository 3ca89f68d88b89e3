"""keras-cv's .h5 files hold the tensors that diffusers' do; keras-cv's own networks take them too.

For both forms, Stable Diffusion 1.4's and 2.1's: a small checkpoint that diffusers wrote, keras-cv's narrow
networks with its weights, and the .h5 files that Keras writes of those.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.cli.convert import convert as command
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.conversion.sources import embedding
from msd.conversion.sources.clip_skip import skip_layers
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.keras_cv import networks as keras_cv
from msd.conversion.sources.published import PUBLISHED
from msd.errors import BadConfig
from msd.graph.parity import psnr
from msd.measure.judging import judge
from msd.models.networks import size_of
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.timestep import embed_timestep
from msd.run.runtime.tokenizer import open_tokenizer
from tests import checkpoints
from tests import keras_cv_files as files
from tests.reference import Array, draw, reference
from tests.stable_diffusion import STORED

LATENT = (8, 16)
PIXELS = {"height": 64, "width": 128}
TIMESTEP = 417
LEAST = {"text_encoder": 75.0, "unet": 80.0, "vae_encoder": 100.0, "vae_decoder": 100.0}
"""Decibels between diffusers and keras-cv, whose GELU is the tanh form and whose epsilons are others."""


class Both:
    """One checkpoint as diffusers has it, `wanted`, and as keras-cv does, `found`; made within `narrow()`."""

    def __init__(self, folder: Path, form: str) -> None:
        self.form, self.folder = form, folder
        self.modules = checkpoints.write(folder / "diffusers", files.FORMS[form])
        self.wanted = open_checkpoint(folder / "diffusers")
        self.models = files.models(form == "second", LATENT)
        files.assign(self.models, self.wanted)
        files.write(folder / "h5", self.models)
        self.found = open_checkpoint(folder / "h5")
        self.bundle = cache(self._bundle)

    def inputs(self, component: str) -> dict[str, Array]:
        """Return random inputs of a converted network; the U-Net's are of one timestep."""
        c = self.found
        size = size_of(c.family, c.configs, **PIXELS)
        network = keras_cv.networks(c.family, c.configs, size)[component]
        inputs = draw(network.inputs, c.configs["text_encoder"].vocabulary, np.random.default_rng(3))
        if "timestep_embedding" in inputs:
            inputs["timestep_embedding"] = embed_timestep(TIMESTEP, c.configs["unet"].channels[0])[None]
        return inputs

    def _bundle(self, recipe: str) -> Bundle:
        out = self.folder / recipe
        convert(
            self.folder / "h5",
            out,
            Settings(
                graph_rewrites.load(), find_recipe(recipe), components=STORED, networks="keras-cv", **PIXELS
            ),
        )
        return open_bundle(out)


@pytest.fixture(scope="module", params=files.FORMS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with files.narrow(), files.indexed_once():
        yield Both(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("component", STORED)
def test_the_tensors_are_those_of_diffusers(both: Both, component: str) -> None:
    found, wanted = both.found.weights[component], both.wanted.weights[component]
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        np.testing.assert_array_equal(found[name].load(), tensor.load())


@pytest.mark.parametrize("component", STORED)
def test_keras_cv_computes_the_same_of_them(both: Both, component: str) -> None:
    """So each tensor is in the place that its name says, queries no keys and keys no values."""
    inputs = both.inputs(component)
    timestep = np.array([TIMESTEP], np.float32)
    wanted = reference(both.modules, component, {**inputs, "timestep": timestep})
    assert psnr(wanted, files.run(both.models[component], inputs)) >= LEAST[component]


def test_the_configuration_is_stable_diffusions(both: Both) -> None:
    for component in STORED:
        assert both.found.configs[component] == both.wanted.configs[component]
    assert both.found.scheduler["prediction_type"] == "epsilon"
    assert both.found.networks == "msd"
    assert list(both.found.files) == ["a.h5", "b.h5", "c.h5", "e.h5"]
    assert both.found.weight_files == {name: (file,) for name, file in files.FILES.items()}


def test_prompts_are_padded_as_the_networks_want(both: Both, tmp_path: Path) -> None:
    """Stable Diffusion 2.1's text encoder was trained with "!"; keras-cv pads with the end token."""
    for networks, pad in (("auto", {"second": 0, "first": 49407}[both.form]), ("keras-cv", 49407)):
        for name, read in (
            open_checkpoint(both.folder / "h5", networks=networks).tokenizers["tokenizer"].items()
        ):
            (tmp_path / name).write_bytes(read())
        assert open_tokenizer(tmp_path).encode("a red dog").tolist()[:7] == [
            49406,
            320,
            736,
            1929,
            49407,
            pad,
            pad,
        ]


CONVERTED = pytest.mark.parametrize(
    "both", ["second", pytest.param("first", marks=pytest.mark.slow)], indirect=True
)
"""To build, trace and convert a U-Net of keras-cv takes half a minute, at any width."""


@CONVERTED
@pytest.mark.parametrize(("recipe", "least"), [("float32", 100.0), ("gpu-w8", 40.0)])
@pytest.mark.parametrize("component", STORED)
def test_its_own_networks_compute_the_same_converted(
    both: Both, component: str, recipe: str, least: float
) -> None:
    inputs = both.inputs(component)
    with Interpreter(both.bundle(recipe).path(component), float_weights=True) as network:
        fed = {name: inputs[name].reshape(port.shape) for name, port in network.inputs.items()}
        (found,) = network.run(fed).values()
    assert psnr(files.run(both.models[component], inputs), found) >= least


@CONVERTED
@pytest.mark.parametrize("component", STORED)
def test_the_delegate_takes_its_own_networks_whole(both: Both, component: str) -> None:
    verdict = judge(both.bundle("gpu-w8").path(component))
    assert verdict.ok, verdict.objections


@CONVERTED
def test_a_bundle_of_its_own_networks_draws(both: Both) -> None:
    bundle = both.bundle("gpu-w8")
    assert bundle.manifest.configuration.networks == "keras-cv"
    assert bundle.manifest.source.kind == "keras-cv"
    assert Pipeline(bundle).generate("a red dog", steps=1).pixels.shape == (64, 128, 3)


def test_the_command_says_what_it_would_write(both: Both, tmp_path: Path) -> None:
    said = [str(both.folder / "h5"), "-o", str(tmp_path), "--source", "keras-cv", "--dry-run"]
    result = CliRunner().invoke(command, said)
    assert result.exit_code == 0
    assert "unet.tflite" in result.stdout


def test_the_published_files_are_those_that_keras_cv_downloads() -> None:
    from keras_cv.src.models.stable_diffusion import decoder, diffusion_model, image_encoder, text_encoder

    modules = (decoder, diffusion_model, image_encoder, text_encoder)
    source = "".join(map(inspect.getsource, modules))
    for sha256, what in PUBLISHED.items():
        assert sha256 in source
        assert f"/{what.split()[-1]}" in source
    assert len(PUBLISHED) == source.count("file_hash=")


def test_tokens_are_added_and_only_our_networks_skip_layers(both: Both, tmp_path: Path) -> None:
    width = both.found.configs["text_encoder"].width
    save_file({"<cat>": np.ones((2, width), np.float32)}, tmp_path / "cat.safetensors")
    grown = embedding.add(skip_layers(both.found, 1), [(tmp_path / "cat.safetensors", None)])
    assert (grown.weights["text_encoder"][embedding.TABLE].load()[49408:] == 1).all()
    assert grown.configs["text_encoder"].layers == both.found.configs["text_encoder"].layers - 1
    own = open_checkpoint(both.folder / "h5", networks="keras-cv")
    grown = embedding.add(own, [(tmp_path / "cat.safetensors", "<dog>")])
    assert grown.configs["text_encoder"].vocabulary == 49410
    with pytest.raises(BadConfig, match="keras-cv's own text encoder always has all layers"):
        skip_layers(own, 1)

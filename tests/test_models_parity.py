"""Each Keras network computes what diffusers and transformers compute from the same checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from msd.conversion.sources.binding import bind
from msd.conversion.sources.diffusers import open_folder
from msd.graph.ir.weights import Weights
from msd.graph.parity import psnr
from msd.models.structure import VariableSpec
from msd.models.structure_cache import structure_of
from tests import checkpoints
from tests.reference import draw, reference
from tests.stable_diffusion import STORED, networks_of

CASES = {
    "sd21": (checkpoints.SD21, 1, 1.0),
    "faint": (checkpoints.SD21, 1, 0.01),
    "sd15": (checkpoints.SD15, 2, 1.0),
    "velocity": (checkpoints.VELOCITY, 1, 1.0),
    "inpainting": (checkpoints.INPAINTING, 2, 1.0),
    "shallow": (checkpoints.SHALLOW, 1, 1.0),
    "no layers": (
        checkpoints.vary(checkpoints.SD15, unet={"transformer_layers_per_block": [0, 2, 1, 0]}),
        1,
        1.0,
    ),
}
"""Configuration, batch, and scale of the weights."""
ENOUGH = 100.0
"""Decibels; float32 rounding alone gives 113 to 141."""


class Pair:
    """A checkpoint on disk, the torch modules that wrote it, and the networks that are to equal them."""

    def __init__(self, folder: Path, config: checkpoints.Config, batch: int, scale: float) -> None:
        self.modules = checkpoints.write(folder, config, scale=scale)
        self.checkpoint = open_folder(folder)
        c = self.checkpoint
        step = c.configs["vae_decoder"].scale * 2 ** (len(c.configs["unet"].channels) - 1)
        self.networks = networks_of(c, step, 2 * step, batch)
        self.random = np.random.default_rng(7)

    def bind(self, component: str, variables: dict[str, VariableSpec]) -> dict[str, Weights]:
        """Return the weights of `variables`; nothing in the checkpoint is left over."""
        binding = bind(component, variables, self.checkpoint.weights[component])
        assert binding.unexpected == ()
        return binding.weights

    def keras(self, component: str) -> Any:
        """Return the model with the checkpoint's weights."""
        model = self.networks[component].build()
        weights = self.bind(
            component, {v.path: VariableSpec(v.path, tuple(v.shape)) for v in model.variables}
        )
        for variable in model.variables:
            variable.assign(weights[variable.path].load())
        return model

    def draw(self, component: str) -> dict[str, np.ndarray]:
        """Return one input, with tokens of the whole vocabulary."""
        return draw(
            self.networks[component].inputs, self.checkpoint.configs["text_encoder"].vocabulary, self.random
        )


@pytest.fixture(scope="module", params=CASES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp(request.param), *CASES[request.param])


@pytest.mark.parametrize("component", STORED)
def test_keras_equals_torch(pair: Pair, component: str) -> None:
    inputs = pair.draw(component)
    model = pair.keras(component)
    wanted = reference(pair.modules, component, inputs)
    (found,) = model(inputs if len(inputs) > 1 else next(iter(inputs.values()))).values()
    assert psnr(wanted, found.numpy()) >= ENOUGH


@pytest.mark.parametrize("pair", ["sd21", "sd15"], indirect=True)
@pytest.mark.parametrize("component", STORED)
def test_structure_equals_torch(pair: Pair, component: str) -> None:
    structure = structure_of(pair.networks[component])
    inputs = pair.draw(component)
    weights = pair.bind(component, structure.variables)
    interpreter = Interpreter(model_content=structure.flatbuffer, num_threads=1)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        name = detail["name"]
        value = inputs[name] if name in inputs else weights[name].load()
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    (output,) = interpreter.get_output_details()
    assert (output["name"],) == structure.outputs
    found = interpreter.get_tensor(output["index"])
    assert psnr(reference(pair.modules, component, inputs), found) >= ENOUGH

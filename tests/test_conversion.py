"""Folders that diffusers writes, converted: the numbers are diffusers', and the delegate takes every file.

The five differ in widths, heads, depth, resolution, activation and layout of their layers from each other and
from the demo checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.conversion.sources.diffusers import open_folder
from msd.graph.parity import psnr
from msd.measure.judging import judge
from msd.run.runners.interpreter import Interpreter
from tests import checkpoints
from tests.reference import Array, draw, reference, timestep_embedding
from tests.stable_diffusion import STORED, networks_of


@dataclass(frozen=True)
class Variant:
    """How weights are stored, what is switched off, and the least PSNR in dB."""

    recipe: str
    without: tuple[str, ...]
    least: float


EXACT = Variant("float32", ("clip_gelu",), 110.0)
"""GELU as the checkpoint defines it."""
FLOAT = Variant("float32", (), 75.0)
"""Where the checkpoint's GELU is the exact one, its clipped tanh form costs some 40 dB."""
INT8 = Variant("gpu-w8", (), 42.0)


@dataclass(frozen=True)
class Case:
    """A checkpoint, the picture size (None: its own) and batch to convert it for, and how."""

    config: checkpoints.Config
    height: int | None
    width: int | None
    batch: int
    variants: tuple[Variant, ...]


CASES = {
    "sd21": Case(checkpoints.SD21, 64, 128, 1, (EXACT, FLOAT, INT8)),
    "sd15": Case(checkpoints.SD15, None, None, 1, (EXACT, INT8)),
    "velocity": Case(checkpoints.VELOCITY, 64, 64, 2, (INT8,)),
    "inpainting": Case(checkpoints.INPAINTING, 64, 64, 1, (INT8,)),
    "shallow": Case(checkpoints.SHALLOW, 40, 24, 2, (EXACT, FLOAT, INT8)),
}


class Converted:
    """A checkpoint and its bundles, each made when it is asked for."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.folder, self.case = folder, case
        self.modules = checkpoints.write(folder / "source", case.config)
        source = open_folder(folder / "source")
        self.vocabulary = source.configs["text_encoder"].vocabulary
        size = (case.height, case.width, case.batch)
        self.networks = networks_of(source, *size)
        self.bundle = cache(self._bundle)
        self.expected = cache(self._expected)

    def _bundle(self, variant: Variant) -> Bundle:
        case, out = self.case, self.folder / f"{variant.recipe} without {'-'.join(variant.without)}"
        rules = [r for r in graph_rewrites.load() if r.name not in variant.without]
        size = {"batch": case.batch, "height": case.height, "width": case.width}
        settings = Settings(rules, find_recipe(variant.recipe), STORED, **size)
        convert(self.folder / "source", out, settings)
        return open_bundle(out)

    def _expected(self, component: str) -> tuple[dict[str, Array], Array]:
        """Return inputs, as the converted network takes them too, and what diffusers makes of them."""
        inputs = draw(self.networks[component].inputs, self.vocabulary, np.random.default_rng(3))
        wanted = reference(self.modules, component, inputs)
        if "timestep" in inputs:
            inputs["timestep_embedding"] = timestep_embedding(self.modules, inputs["timestep"])
        return inputs, wanted


@pytest.fixture(scope="module", params=CASES)
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return Converted(tmp_path_factory.mktemp(request.param), CASES[request.param])


@pytest.mark.parametrize("component", STORED)
def test_the_numbers_are_those_of_diffusers(converted: Converted, component: str) -> None:
    inputs, wanted = converted.expected(component)
    for variant in converted.case.variants:
        path = converted.bundle(variant).path(component)
        with Interpreter(path, float_weights=True) as network:
            fed = {name: inputs[name].reshape(port.shape) for name, port in network.inputs.items()}
            (found,) = network.run(fed).values()
        assert psnr(wanted, found) >= variant.least, variant


@pytest.mark.parametrize("component", STORED)
def test_the_delegate_takes_it_whole(converted: Converted, component: str) -> None:
    bundle = converted.bundle(INT8)
    verdict = judge(bundle.path(component))
    assert verdict.ok, verdict.objections
    assert verdict.delegated == bundle.component(component).operations


@pytest.mark.parametrize("converted", ["shallow"], indirect=True)
@pytest.mark.parametrize("variant", [EXACT, FLOAT])
def test_the_delegate_takes_float_weights_too(converted: Converted, variant: Variant) -> None:
    verdict = judge(converted.bundle(variant).path("unet"))
    assert verdict.ok, verdict.objections

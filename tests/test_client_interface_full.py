"""At full size, Stable Diffusion 1.5's networks fit where each program has room; no weight is read."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.conversion.client_interface import find_interface, shipped
from msd.conversion.client_ports import bind
from msd.conversion.trace import with_weights
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.weights import Array, Weights
from msd.graph.prediction.rules import predict
from msd.graph.rewrite import apply
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from tests.stable_diffusion import networks_for, public_configs

CONFIG = Path(__file__).parent.parent / "configs" / "models" / "sd15.toml"


def constant(shape: tuple[int, ...]) -> Array:
    """Return one number in that shape, which takes no memory: rewrites read a few small weights."""
    return np.broadcast_to(np.float32(0.01), shape)


def without_checkpoint(structure: Structure) -> Model:
    shapes = {t.name: t.shape for t in tflite.parse(structure.flatbuffer).main.inputs}
    weights = {
        name: Weights(shapes[name], np.dtype(np.float32), lambda s=shapes[name]: constant(s), name)
        for name in structure.variables
    }
    return with_weights(structure, weights)


@pytest.mark.parametrize(
    "component", ["text_encoder", pytest.param("unet", marks=pytest.mark.slow), "vae_decoder"]
)
@pytest.mark.parametrize("name", shipped())
def test_every_port_fits(name: str, component: str) -> None:
    interface = find_interface(name)
    wanted = interface.networks[component]
    configs = public_configs(tomllib.loads(CONFIG.read_text("utf-8")))
    network = networks_for(configs, batch=wanted.batch or interface.batch)[component]
    model = without_checkpoint(structure_of(network))
    apply(model.main, graph_rewrites.load())
    bound = bind(model.main, component, wanted)
    assert bound.misfits == ()
    assert [t.name for t in model.main.inputs] == [port.name for port in wanted.inputs]
    assert all(port.shape for port in (*wanted.inputs, *wanted.outputs)), "shapes are compared"
    assert [f for f in predict(model, "litert-gpu") if f.severity != "note"] == []

"""At full size the networks have exactly the tensors that diffusers and transformers have; none is loaded.

Their structures are those that ship with msd.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from msd.conversion.sources.binding import bind
from msd.graph.ir.weights import Array, Weights
from msd.models.structure_cache import structure_of
from msd.models.trace import trace
from tests import checkpoints
from tests.stable_diffusion import networks_for, public_configs

MODELS = Path(__file__).parent.parent / "configs" / "models"


def absent() -> Array:
    raise AssertionError("a weight was loaded")


@pytest.mark.parametrize("name", ["sd21", "sd15"])
def test_every_tensor_has_its_variable(name: str) -> None:
    config = tomllib.loads((MODELS / f"{name}.toml").read_text())
    with torch.device("meta"):
        modules = checkpoints.modules(config)
    modules["vae_encoder"] = modules["vae_decoder"] = modules.pop("vae")
    for component, network in networks_for(public_configs(config)).items():
        structure = trace(network.build, network.inputs)
        assert structure == structure_of(network), "make structures"
        weights = {
            tensor: Weights(tuple(value.shape), np.dtype(np.float32), absent, tensor)
            for tensor, value in modules[component].state_dict().items()
        }
        unexpected = bind(component, structure.variables, weights).unexpected
        others = {"vae_encoder": ("decoder.", "post_quant_conv."), "vae_decoder": ("encoder.", "quant_conv.")}
        assert all(name.startswith(others.get(component, ())) for name in unexpected)

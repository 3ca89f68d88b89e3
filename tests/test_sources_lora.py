"""LoRA files merged: the weights are those that diffusers fuses, and what is no LoRA for them is refused."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msd.errors import BadCheckpoint, BadConfig, MsdError
from msd.sources.checkpoint import Checkpoint
from msd.sources.diffusers import open_folder
from msd.sources.lora import merge, parse
from msd.sources.lora_names import compvis_blocks, layer_names
from tests import checkpoints, loras
from tests.loras import BLOCK, Factors, Modules, Tensors

CONVOLVED = checkpoints.vary(checkpoints.TINY, unet={"use_linear_projection": False})
"""With the 1x1 convolutions of Stable Diffusion 1, where Stable Diffusion 2 has linear layers."""


class Tiny:
    """A checkpoint's folder, what it opens to, its modules and some LoRA for all kinds of layers."""

    def __init__(self, folder: Path, config: checkpoints.Config) -> None:
        self.folder = folder
        self.modules: Modules = checkpoints.write(folder, config)
        self.checkpoint = open_folder(folder)
        self.factors = loras.draw(self.modules)

    def fuse(self, *files: tuple[Path, float]) -> dict[str, dict[str, Any]]:
        """Return the weights that diffusers makes, named as a checkpoint's are."""
        fused = loras.fuse(self.modules, self.folder / "tokenizer", list(files))
        return {
            component: {
                name.removeprefix("text_model."): tensor.numpy()
                for name, tensor in fused[component].state_dict().items()
            }
            for component in ("unet", "text_encoder")
        }


@pytest.fixture(scope="module", params=[checkpoints.TINY, CONVOLVED], ids=["linear", "convolved"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"), request.param)


linear = pytest.mark.parametrize("tiny", [checkpoints.TINY], indirect=True, ids=["linear"])


def require_equal(tiny: Tiny, found: Checkpoint, wanted: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """Require diffusers' weights, and the same objects where nothing changed; return what has changed."""
    changed = set()
    for component, tensors in wanted.items():
        for name, tensor in tensors.items():
            before, after = tiny.checkpoint.weights[component][name], found.weights[component][name]
            if np.array_equal(before.load(), tensor):
                assert after is before, name
            else:
                changed.add((component, name))
                close = 1e-6 * np.abs(tensor).max()
                np.testing.assert_allclose(after.load(), tensor, rtol=0, atol=close, err_msg=name)
    assert found.weights["vae_decoder"] is tiny.checkpoint.weights["vae_decoder"]
    return changed


def attention(factors: Factors) -> Factors:
    return {layer: factors[layer] for layer in loras.ATTENTION}


@pytest.mark.parametrize("scale", [1.0, 0.7, -1.25])
@pytest.mark.parametrize("naming", [loras.kohya, loras.compvis, loras.older, loras.peft, loras.oldest])
def test_the_weights_are_those_of_diffusers(
    naming: Callable[[Factors], Tensors], scale: float, tiny: Tiny, tmp_path: Path
) -> None:
    factors = attention(tiny.factors) if naming is loras.oldest else tiny.factors
    path = loras.save(tmp_path / "x.safetensors", naming(factors))
    found = merge(tiny.checkpoint, [(path, scale)])
    changed = require_equal(tiny, found, tiny.fuse((path, scale)))
    assert changed == {(component, f"{layer}.weight") for component, layer in factors}

"""Each Keras network computes what diffusers and transformers compute from the same checkpoint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msd.models.networks import networks
from msd.sources.binding import bind
from msd.sources.diffusers import open_folder
from msd.trace import VariableSpec
from tests import checkpoints

CONFIGS = {
    "sd21": checkpoints.SD21,
    "sd15": checkpoints.SD15,
    "velocity": checkpoints.VELOCITY,
    "inpainting": checkpoints.INPAINTING,
    "shallow": checkpoints.SHALLOW,
}
ENOUGH = 80.0
"""Decibels."""


def psnr(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return 20·log10(max|wanted| / rmse) in decibels."""
    assert found.shape == wanted.shape
    error = math.sqrt(np.mean((found.astype(np.float64) - wanted) ** 2))
    return 20 * math.log10(np.abs(wanted).max() / error) if error else math.inf


class Pair:
    """A checkpoint on disk, the torch modules that wrote it, and the Keras models bound to it."""

    def __init__(self, folder: Path, config: checkpoints.Config, batch: int) -> None:
        self.modules = checkpoints.write(folder, config)
        self.checkpoint = open_folder(folder)
        c = self.checkpoint
        step = c.vae_decoder.scale * 2 ** (len(c.unet.channels) - 1)
        self.networks = networks(c.text_encoder, c.unet, c.vae_decoder, step, 2 * step, batch)
        self.random = np.random.default_rng(7)

    def keras(self, component: str) -> Any:
        """Return the model with the checkpoint's weights; nothing in the checkpoint is left over."""
        model = self.networks[component].build()
        variables = {v.path: VariableSpec(v.path, tuple(v.shape)) for v in model.variables}
        binding = bind(component, variables, self.checkpoint.weights[component])
        assert binding.unexpected == ()
        for variable in model.variables:
            variable.assign(binding.weights[variable.path].load())
        return model

    def draw(self, component: str, name: str) -> np.ndarray:
        """Return normally distributed values for an input."""
        shape, _ = self.networks[component].inputs[name]
        return self.random.standard_normal(shape, dtype=np.float32)


@pytest.fixture(scope="module", params=[(name, 1 + i % 2) for i, name in enumerate(CONFIGS)], ids=str)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name, batch = request.param
    return Pair(tmp_path_factory.mktemp(name), CONFIGS[name], batch)


def nchw(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x).permute(0, 3, 1, 2)


def nhwc(x: torch.Tensor) -> np.ndarray:
    return x.permute(0, 2, 3, 1).numpy()


@torch.no_grad()
def test_text_encoder(pair: Pair) -> None:
    shape, _ = pair.networks["text_encoder"].inputs["tokens"]
    tokens = pair.random.integers(0, pair.checkpoint.text_encoder.vocabulary, shape, dtype=np.int32)
    wanted = pair.modules["text_encoder"](torch.from_numpy(tokens).long())[0].numpy()
    assert psnr(pair.keras("text_encoder")(tokens)["context"].numpy(), wanted) >= ENOUGH


@torch.no_grad()
def test_unet(pair: Pair) -> None:
    model = pair.keras("unet")
    inputs = {name: pair.draw("unet", name) for name in pair.networks["unet"].inputs}
    inputs["timestep"] = np.linspace(981, 3, len(inputs["latent"]), dtype=np.float32)
    found = model(inputs)["noise"].numpy()
    guidance = torch.from_numpy(inputs["guidance"]) if "guidance" in inputs else None
    wanted = pair.modules["unet"](
        nchw(inputs["latent"]),
        torch.from_numpy(inputs["timestep"]),
        torch.from_numpy(inputs["context"]),
        timestep_cond=guidance,
    ).sample
    assert psnr(found, nhwc(wanted)) >= ENOUGH


@torch.no_grad()
def test_vae_decoder(pair: Pair) -> None:
    latent = pair.draw("vae_decoder", "latent")
    found = pair.keras("vae_decoder")(latent)["image"].numpy()
    vae = pair.modules["vae"]
    wanted = vae.decode(nchw(latent) / vae.config.scaling_factor).sample
    assert psnr(found, nhwc(wanted)) >= ENOUGH

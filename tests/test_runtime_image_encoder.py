"""An image becomes the latents that diffusers samples of it with the same noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.errors import BadBundle
from msd.graph.parity import psnr
from msd.models.families.stable_diffusion import VAE_ENCODER
from msd.run.runners.engine import Engine
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import open_component
from msd.run.runtime.image_encoder import encode_pixels
from msd.run.runtime.noise import posterior_noise
from tests import checkpoints
from tests.reference import Array, Modules

CPU = Engine(find_backend("cpu"), Conditions(threads=1))
CONFIG = checkpoints.vary(checkpoints.TINY, vae={"scaling_factor": 0.4})
HEIGHT, WIDTH, LATENTS = 24, 40, (1, 12, 20, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module")
def modules(folder: Path) -> Modules:
    return checkpoints.write(folder / "checkpoint", CONFIG)


@pytest.fixture(scope="module", params=[1, 2], ids=["batch 1", "batch 2"])
def bundle(request: pytest.FixtureRequest, folder: Path, modules: Modules) -> Bundle:
    settings = Settings(
        graph_rewrites.load(),
        find_recipe("float32"),
        components=(VAE_ENCODER.name,),
        batch=request.param,
        height=HEIGHT,
        width=WIDTH,
    )
    convert(folder / "checkpoint", folder / f"bundle-{request.param}", settings)
    return open_bundle(folder / f"bundle-{request.param}")


def encoded(bundle: Bundle, image: Array, seed: int) -> Array:
    call = bundle.wiring.initial
    assert call is not None
    with open_component(bundle, VAE_ENCODER.name, CPU) as network:
        return encode_pixels(call, network, {"image": image}, {}, seed)["initial_latent"]


@torch.no_grad()
def sampled(modules: Modules, image: Array, drawn: Array, patch: pytest.MonkeyPatch) -> Array:
    """Return what diffusers samples with the noise `drawn`."""
    given = torch.from_numpy(drawn).permute(0, 3, 1, 2)
    patch.setattr("diffusers.models.autoencoders.vae.randn_tensor", lambda shape, **_: given.reshape(shape))
    vae = modules["vae"]
    latents = vae.encode(torch.from_numpy(image).permute(0, 3, 1, 2)).latent_dist.sample()
    scaled: Array = (latents * vae.config.scaling_factor).permute(0, 2, 3, 1).numpy()
    return scaled


def image_of(seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (1, HEIGHT, WIDTH, 3)).astype(np.float32)


def test_latents_are_those_that_diffusers_samples(
    bundle: Bundle, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, drawn = image_of(1), posterior_noise(7, LATENTS, 1)
    latents = encoded(bundle, image, 7)
    assert (latents.shape, latents.dtype) == (LATENTS, np.float32)
    assert psnr(sampled(modules, image, drawn, monkeypatch), latents) >= 100


def test_an_image_of_another_size_is_refused(bundle: Bundle) -> None:
    with pytest.raises(BadBundle, match=r"vae_encoder takes .*\[\d, 24, 40, 3\].*do not fit"):
        encoded(bundle, image_of(1)[:, :-1], 1)

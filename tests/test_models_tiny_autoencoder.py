"""The tiny autoencoder: what a converted one computes, against diffusers'; and what delegates make of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.errors import BadCheckpoint
from msd.graph.parity import psnr
from msd.graph.prediction.device import find_device, shipped
from msd.measure.judging import judge
from msd.measure.report.examine import examine
from msd.measure.report.float16_audit import audited
from msd.models.tiny_config import TinyDecoderConfig, TinyEncoderConfig
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import open_component
from msd.run.runtime.image_encoder import encode_pixels
from tests import checkpoints, tiny_autoencoders
from tests.late import diffusers
from tests.reference import reference

HALVES = ("vae_encoder", "vae_decoder")
DELEGATES = ("litert-gpu", "tflite-gpu")
FEWER: dict[str, Any] = {
    "encoder_block_out_channels": (24, 24, 24),
    "num_encoder_blocks": (2, 1, 1),
    "decoder_block_out_channels": (40, 40),
    "num_decoder_blocks": (1, 2),
    "upsampling_scaling_factor": 4,
    "scaling_factor": 0.5,
}
CASES = {
    "narrow": (tiny_autoencoders.NARROW, 8),
    "shallow": (tiny_autoencoders.SHALLOW, 2),
    "fewer": (FEWER, 4),
}
"""Settings of diffusers' AutoencoderTiny, and the pixels along the side of a latent cell."""


class Converted:
    """A checkpoint with a tiny autoencoder, and what conversions make of its two halves."""

    def __init__(self, folder: Path, settings: dict[str, Any], scale: int) -> None:
        checkpoints.write(folder / "source", checkpoints.TINY)
        self.folder, self.scale = folder, scale
        self.vae = tiny_autoencoders.write(folder / "vae", **settings)

    def bundle(self, recipe: str, rows: int = 6, columns: int = 10) -> Bundle:
        """Return both halves for latents of `rows` by `columns` cells."""
        settings = Settings(
            graph_rewrites.load(),
            find_recipe(recipe),
            components=HALVES,
            height=rows * self.scale,
            width=columns * self.scale,
            vae=(self.folder / "vae",),
        )
        convert(self.folder / "source", self.folder / recipe, settings)
        return open_bundle(self.folder / recipe)


@pytest.fixture(scope="module", params=CASES)
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return Converted(tmp_path_factory.mktemp(request.param), *CASES[request.param])


RECIPES = pytest.mark.parametrize(
    ("recipe", "enough"), [("float32", 100), ("gpu-w8", 45), ("tflite-gpu-w8", 45)]
)


@RECIPES
def test_the_decoder_computes_what_diffusers_does(recipe: str, enough: float, converted: Converted) -> None:
    random = np.random.default_rng(3)
    latent = 3 * random.standard_normal((1, 6, 10, 4), np.float32)  # beyond the clamp's ±3, too
    with Interpreter(converted.bundle(recipe).path("vae_decoder"), float_weights=True) as written:
        found = written.run({"latent": latent})["image"]
    assert found.shape == (1, 6 * converted.scale, 10 * converted.scale, 3)
    assert psnr(reference({"vae": converted.vae}, "vae_decoder", {"latent": latent}), found) >= enough


@RECIPES
def test_the_encoder_computes_what_diffusers_does(recipe: str, enough: float, converted: Converted) -> None:
    random, bundle = np.random.default_rng(3), converted.bundle(recipe)
    image = random.uniform(-1, 1, (1, 6 * converted.scale, 10 * converted.scale, 3)).astype(np.float32)
    engine = Engine(find_backend("cpu"), Conditions(threads=1, float_weights=True))
    call = bundle.wiring.initial
    assert call is not None
    with open_component(bundle, "vae_encoder", engine) as network:
        found = encode_pixels(call, network, {"image": image}, {}, 1)["initial_latent"]
    with torch.no_grad():
        encoded = converted.vae.encode(torch.from_numpy(image.transpose(0, 3, 1, 2))).latents
    wanted = converted.vae.config.scaling_factor * encoded.numpy().transpose(0, 2, 3, 1)
    assert found.shape == (1, 6, 10, 4)
    assert psnr(wanted, found) >= enough


def test_the_public_autoencoder_is_whole_at_full_size_on_every_device(tmp_path: Path) -> None:
    bundle = Converted(tmp_path, {}, 8).bundle("gpu-w8", 64, 64)
    for half, operations in (("vae_encoder", 51), ("vae_decoder", 53)):
        for device in shipped():
            report = examine(bundle.path(half), DELEGATES, find_device(device))
            assert report.operations == operations
            whole = [(each.delegated, each.partitions) for each in report.predictions]
            assert whole == [(operations, 1)] * 2, device


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("converted", ["shallow"], indirect=True)
def test_the_real_delegate_takes_both_halves_whole(half: str, converted: Converted) -> None:
    bundle = converted.bundle("gpu-w8")
    verdict = judge(bundle.path(half))
    assert verdict.ok, verdict.objections
    assert verdict.delegated == bundle.component(half).operations
    assert not audited(bundle.path(half)).out_of_range


PUBLIC = {
    "_class_name": "AutoencoderTiny",
    "_diffusers_version": "0.20.0.dev0",
    "act_fn": "relu",
    "decoder_block_out_channels": [64, 64, 64, 64],
    "encoder_block_out_channels": [64, 64, 64, 64],
    "force_upcast": False,
    "in_channels": 3,
    "latent_channels": 4,
    "latent_magnitude": 3,
    "latent_shift": 0.5,
    "num_decoder_blocks": [3, 3, 3, 1],
    "num_encoder_blocks": [1, 3, 3, 3],
    "out_channels": 3,
    "scaling_factor": 1.0,
    "upsampling_scaling_factor": 2,
}
"""The config.json of madebyollin/taesd."""


def test_the_public_configuration_is_diffusers_default() -> None:
    written = dict(diffusers.AutoencoderTiny().config)
    for read in (TinyEncoderConfig.from_diffusers, TinyDecoderConfig.from_diffusers):
        assert read(PUBLIC, "vae") == read(written, "vae") == read({}, "vae")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"_class_name": "AutoencoderKL"}, "_class_name = 'AutoencoderKL', but only 'AutoencoderTiny' is"),
        ({"act_fn": "silu"}, "act_fn = 'silu', but only 'relu' is supported"),
        ({"upsample_fn": "bilinear"}, "upsample_fn = 'bilinear', but only 'nearest' is supported"),
        ({"shift_factor": 0.1}, "shift_factor = 0.1, but only 0.0 or None is supported"),
        ({"num_decoder_blocks": [3, 3]}, "num_decoder_blocks = [3, 3], but decoder_block_out_channels has 4"),
        (
            {"decoder_block_out_channels": [64, 64, 64, 32]},
            "decoder_block_out_channels = [64, 64, 64, 32], but diffusers' AutoencoderTiny works with equal",
        ),
        ({"num_encoder_blocks": [0, 3, 3, 3]}, "num_encoder_blocks = 0, but an integer from 1"),
        ({"scaling_factor": 0}, "scaling_factor = 0.0, but a number above 0 was expected"),
        ({"pixel_shuffle": 2}, "pixel_shuffle = 2, but its meaning is unknown"),
    ],
)
def test_other_configurations_are_refused_by_key(change: dict[str, Any], said: str) -> None:
    half = TinyEncoderConfig if "num_encoder_blocks" in change else TinyDecoderConfig
    with pytest.raises(BadCheckpoint, match=re.escape(f"vae/config.json says {said}")):
        half.from_diffusers({**PUBLIC, **change}, "vae")

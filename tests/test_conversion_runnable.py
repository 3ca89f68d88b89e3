"""What a conversion accepts generates images, and what could not is refused, by name, before any work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import graph_rewrites
import msd
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.errors import BadCheckpoint
from tests import checkpoints, single_files, xl_checkpoints
from tests.checkpoints import TINY, Config, vary

ALSO = ("vae_encoder",)
SIDE = 32
"""Pixels along the side of the images of `TINY`."""


def opened(folder: Path, **settings: Any) -> None:
    open_job(folder, Settings(graph_rewrites.load(), **settings))


def tokens(length: int) -> Callable[[Path], None]:
    """Return a function that makes a checkpoint's tokenizer give `length` tokens."""

    def edit(folder: Path) -> None:
        path = folder / "tokenizer" / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": length}))

    return edit


def as_it_is(folder: Path) -> None:
    """Change nothing."""


def channels(count: int, latents: int = 4) -> Config:
    return vary(TINY, unet={"in_channels": count, "out_channels": latents}, vae={"latent_channels": latents})


ACCEPTED: dict[str, tuple[Config, Callable[[Path], None]]] = {
    "more rows than tokens": (vary(TINY, text_encoder={"vocab_size": 601}), as_it_is),
    "a short prompt": (vary(TINY, text_encoder={"max_position_embeddings": 40}), tokens(40)),
    "8 channels of latents": (channels(8, 8), as_it_is),
    "inpainting": (channels(9), as_it_is),
    "inpainting, 3 channels of latents": (channels(7, 3), as_it_is),
    "the clean image": (vary(TINY, scheduler={"prediction_type": "sample"}), as_it_is),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_accepted_generates_images(case: str, tmp_path: Path) -> None:
    config, edit = ACCEPTED[case]
    checkpoints.write(tmp_path / "source", config)
    edit(tmp_path / "source")
    bundle = msd.convert(tmp_path / "source", tmp_path / "out", recipe="float32", also=ALSO)
    pixels = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    Image.fromarray(np.uint8(np.eye(SIDE) * 255)).save(tmp_path / "mask.png")
    image = msd.generate(bundle, "red", steps=2, image=tmp_path / "in.png", mask=tmp_path / "mask.png")
    assert image.pixels.shape == (SIDE, SIDE, 3)


REFUSED: list[tuple[Config, Callable[[Path], None], str]] = [
    (channels(15, 8), as_it_is, r"takes 15 channels; 8 \(the latents alone\), 17 .* or 16 \(an image to"),
    (channels(5), as_it_is, r"takes 5 channels: beside latents of 4 a depth map"),
    (channels(7), as_it_is, r"takes 7 channels: beside latents of 4 a small image to enlarge"),
    (channels(6), as_it_is, r"takes 6 channels; 4 \(the latents alone\), 9 \(a mask and the masked image"),
    (channels(3), as_it_is, r"takes 3 channels; 4"),
    (vary(TINY, text_encoder={"max_position_embeddings": 40}), as_it_is, r"reads 40 tokens .* gives 77"),
    (
        vary(TINY, text_encoder={"max_position_embeddings": 248}),
        tokens(248),
        r"reads 248 .* gives 77 .*to 77",
    ),
    (TINY, tokens(40), r"reads 77 tokens at once .* gives 40"),
    (
        vary(TINY, text_encoder={"vocab_size": 515}),
        as_it_is,
        r"ids up to 515 \('<\|endoftext\|>'\), and the table of its text encoder has 515 rows",
    ),
    (vary(TINY, vae={"out_channels": 4}), as_it_is, "VAE decoder has images of 4 channels; 3 are"),
    (vary(TINY, vae={"in_channels": 4}), as_it_is, "VAE encoder has images of 4 channels; 3 are"),
    (vary(TINY, unet={"class_embed_type": "timestep"}), as_it_is, "class_embed_type = 'timestep'"),
    (vary(TINY, unet={"num_class_embeds": 7}), as_it_is, "num_class_embeds = 7"),
    (vary(TINY, unet={"encoder_hid_dim": 48}), as_it_is, "encoder_hid_dim = 48"),
    (vary(TINY, scheduler={"prediction_type": "flow_prediction"}), as_it_is, "known are epsilon, sample"),
    (
        vary(TINY, scheduler={"_class_name": "EDMEulerScheduler"}),
        as_it_is,
        "trained with the noise of EDM, which no scheduler here follows: --scheduler cannot replace it",
    ),
    (
        vary(TINY, scheduler={"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}),
        as_it_is,
        "cannot start at timestep 999, where all is noise; --scheduler and --steps replace",
    ),
]


@pytest.mark.parametrize(("config", "edit", "why"), REFUSED)
def test_what_could_generate_no_image_is_refused(
    config: Config, edit: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    checkpoints.write(tmp_path / "source", config)
    edit(tmp_path / "source")
    with pytest.raises(BadCheckpoint, match=why):
        opened(tmp_path / "source", also=ALSO)


def test_an_image_encoder_that_is_not_converted_is_not_judged(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, vary(TINY, vae={"in_channels": 4}))
    opened(tmp_path)


def test_another_scheduler_cures_a_checkpoint(tmp_path: Path) -> None:
    checkpoints.write(
        tmp_path, vary(TINY, scheduler={"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"})
    )
    opened(tmp_path, scheduler="ddim:timestep_spacing=leading")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    path = single_files.write(tmp_path_factory.mktemp("first") / "sd15.safetensors", single_files.FIRST)
    return dict(load_file(path))


def test_instruct_pix2pix_in_one_file_takes_the_encoder(
    first: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """tests/test_instruct_pix2pix.py generates with one."""
    name = "model.diffusion_model.input_blocks.0.0.weight"
    doubled = torch.cat([first[name], torch.zeros_like(first[name])], 1)
    save_file({**first, name: doubled}, tmp_path / "pix2pix.safetensors")
    job = open_job(tmp_path / "pix2pix.safetensors", Settings(graph_rewrites.load()))
    assert "vae_encoder" in job.components


def test_a_state_that_no_prompt_ends_in_is_refused(tmp_path: Path) -> None:
    """Without the token in a prompt, transformers pools the state of the first one, always the same."""
    xl_checkpoints.write(tmp_path)
    file = tmp_path / "text_encoder_2" / "config.json"
    config = json.loads(file.read_text())
    for end in (config["eos_token_id"], 515):
        file.write_text(json.dumps({**config, "eos_token_id": end}))
        opened(tmp_path)
    file.write_text(json.dumps({**config, "eos_token_id": 516}))
    said = r"second text encoder pools the state of the token 516 .* tokenizer_2 ends prompts with 515; both"
    with pytest.raises(BadCheckpoint, match=said):
        opened(tmp_path)

"""The training of a Stable Diffusion XL of the demo's scenes, a step or two of it."""

import json
import math

import numpy as np
import pytest
import torch

from msd.conversion.sources.formats import open_checkpoint
from msd.models.demo import CHECKPOINT
from scripts.lab import train_demo_xl
from scripts.lab.demo_training import data, xl_architecture, xl_denoising
from scripts.lab.demo_training.framing import SIDES, framed
from scripts.lab.demo_training.loop import TrainingRun
from scripts.lab.demo_training.recipe import Stage
from tests.late import diffusers

END = 665


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xl")
    run = TrainingRun(folder / "state", "cpu", math.inf, lambda line: None)
    train_demo_xl.make(train_demo_xl.SMOKE, folder / "out", run, seconds=1, asked=1, steps=1)
    return folder / "out"


def test_it_writes_a_checkpoint_that_diffusers_and_msd_open(trained):
    pipe = diffusers.StableDiffusionXLPipeline.from_pretrained(trained, dtype=torch.float32)
    assert (pipe.tokenizer.pad_token, pipe.tokenizer_2.pad_token) == ("<|endoftext|>", "!")
    checkpoint = open_checkpoint(trained)
    assert checkpoint.family.name == "stable-diffusion-xl"
    assert checkpoint.configs["unet"].added.pooled == xl_architecture.SECOND_WIDTH
    record = json.loads((trained / "training.json").read_text())
    assert (record["recipe"]["denoiser"]["steps"], record["quality"]["captions"]) == (2, 1)
    sizes = [path.stat().st_size for path in trained.rglob("*.safetensors")]
    assert sum(sizes) / 2 <= 15e6


def test_the_conditions_of_training_are_those_of_diffusers_pipeline(trained):
    """Of the saved weights and the two tokenizers; the empty caption's are zeros, as without a negative."""
    pipe = diffusers.StableDiffusionXLPipeline.from_pretrained(trained, dtype=torch.float32)
    parts = {"text_encoder": pipe.text_encoder, "text_encoder_2": pipe.text_encoder_2}
    text = "two red circles on the left over a plain blue background"
    ids = torch.from_numpy(data.token_ids([text, ""], CHECKPOINT / "tokenizer")).long()
    with torch.no_grad():
        states, vectors = xl_denoising.conditions(parts, ids, END)
        wanted = pipe.encode_prompt(text, device="cpu")
    for found, (given, empty) in zip((states, vectors), (wanted[:2], wanted[2:]), strict=True):
        assert torch.allclose(found[:1], given, atol=1e-6)
        assert torch.equal(found[1:], empty)
        assert not empty.any()


def test_images_are_cropped_and_scaled_as_their_sizes_say():
    drawn = torch.randint(0, 255, (800, 8, 8, 3), dtype=torch.uint8, generator=torch.manual_seed(0))
    shown, sizes = framed(drawn, 3)
    assert (shown.shape, sizes.shape) == (drawn.shape, (800, 6))
    plain = (sizes[:, 0] == 8) & (sizes[:, 2:4] == 0).all(1)
    assert 0 < plain.sum() < 800
    assert torch.equal(shown[plain], drawn[plain])
    assert {*sizes[:, 0].int().tolist()} <= {8, *SIDES}
    assert (sizes[:, 2:4] <= sizes[:, :2] - 8).all()
    assert (sizes[:, 4:] == 8).all()


def test_an_enlarged_image_is_cropped_where_its_sizes_say():
    """Of an image whose red rises with the row and whose green with the column."""
    rows, columns = np.mgrid[:128, :128]
    ramp = torch.from_numpy(np.stack([rows, columns, rows], -1).astype(np.uint8)).expand(800, -1, -1, -1)
    shown, sizes = framed(ramp, 3)
    cropped = sizes[:, 0] > 128
    assert cropped.any()
    for image, (side, _, top, left, *_) in zip(shown[cropped], sizes[cropped].tolist(), strict=True):
        for channel, first in ((0, top), (1, left)):
            assert image[64, 64, channel].item() == pytest.approx((first + 64) * 128 / side, abs=1)


def test_as_many_steps_are_taken_as_fit():
    weight = torch.nn.Parameter(torch.ones(()))
    many = Stage(steps=10**9, batch=1, rate=1.0, warmup=5, average=0.9)
    fitting = xl_denoising.paced(many, lambda step: weight * 2, 1.0).steps
    assert 5 < fitting < 10**9
    assert xl_denoising.paced(many, lambda step: weight * 2, 0.0).steps == 6

"""ControlNets of Stable Diffusion XL, which take the pooled text and the sizes too, against diffusers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from PIL import Image

import msd
from msd.bundle import Bundle
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.errors import BadCheckpoint
from msd.graph.parity import psnr
from msd.run.runtime.control import Control
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, controlnets, xl_checkpoints
from tests.drawings import nchw, nhwc
from tests.late import diffusers

HEIGHT, WIDTH = 16, 24
START = noise(4, (1, HEIGHT // 2, WIDTH // 2, 4))
STEPS = 4
SMALL = [*controlnets.SMALL]

Theirs: TypeAlias = "tuple[Path, diffusers.StableDiffusionXLPipeline, diffusers.ControlNetModel]"


@pytest.fixture(scope="module")
def theirs(
    tmp_path_factory: pytest.TempPathFactory,
) -> Theirs:
    folder = tmp_path_factory.mktemp("xl-control")
    pipeline = xl_checkpoints.write(folder / "xl")
    made = controlnets.write(folder / "canny", pipeline.unet, **controlnets.OF_TINY)
    hint = np.random.default_rng(1).integers(0, 2, (HEIGHT, WIDTH, 3), np.uint8) * 255
    Image.fromarray(hint).save(folder / "hint.png")
    return folder, pipeline, made


@pytest.fixture(scope="module")
def bundle(theirs: Theirs) -> Bundle:
    folder = theirs[0]
    given = {"recipe": "float32", "controlnets": [(folder / "canny", None)]}
    return msd.convert(folder / "xl", folder / "out", **given)


@pytest.mark.parametrize(("guess", "guidance"), [(False, 5.0), (True, 5.0), (False, 1.0)])
def test_images_are_diffusers(guess: bool, guidance: float, bundle: Bundle, theirs: Theirs) -> None:
    require_diffusers_images(bundle, theirs, "canny", guess, guidance)


@pytest.mark.parametrize(("kind", "fused"), [*((kind, False) for kind in SMALL), (SMALL[-1], True)])
def test_small_ones_are_diffusers(kind: str, fused: bool, theirs: Theirs, tmp_path: Path) -> None:
    folder, pipeline, _ = theirs
    made = controlnets.write_small(tmp_path / "small", pipeline.unet, kind)
    given = {"recipe": "float32", "controlnets": [(tmp_path / "small", None)], "fuse_control": fused}
    bundle = msd.convert(folder / "xl", tmp_path / "out", **given)
    require_diffusers_images(bundle, (folder, pipeline, made), "small", guess=False, guidance=5.0)


def require_diffusers_images(bundle: Bundle, theirs: Theirs, name: str, guess: bool, guidance: float) -> None:
    """Require the latents of diffusers' pipeline, and others without the ControlNet."""
    folder, pipeline, controlnet = theirs
    steered = diffusers.StableDiffusionXLControlNetPipeline(
        **{k: v for k, v in pipeline.components.items() if k not in ("image_encoder", "feature_extractor")},
        controlnet=controlnet,
        add_watermarker=False,
    )
    steered.set_progress_bar_config(disable=True)
    common: dict[str, Any] = {
        "num_inference_steps": STEPS,
        "guidance_scale": guidance,
        "output_type": "latent",
    }
    with torch.no_grad():
        wanted = steered(
            "a red dog!",
            image=Image.open(folder / "hint.png"),
            controlnet_conditioning_scale=0.8,
            guess_mode=guess,
            negative_prompt="blurry",
            latents=nchw(START),
            height=HEIGHT,
            width=WIDTH,
            **common,
        ).images
    hint = open_initial_image(folder / "hint.png", HEIGHT, WIDTH).pixels
    settings: dict[str, Any] = {"steps": STEPS, "guidance": guidance, "latents": START}
    with Pipeline(bundle) as ours:
        made = ours.generate(
            "a red dog!",
            negative_prompt="blurry",
            controls=[Control(name=name, hint=hint, scale=0.8)],
            guess=guess,
            **settings,
        )
        plain = ours.generate("a red dog!", negative_prompt="blurry", **settings)
    assert psnr(nhwc(wanted), made.latents) >= 60
    assert psnr(nhwc(wanted), plain.latents) < 50


def test_a_file_with_the_authors_names_is_the_same_network(theirs: Theirs, tmp_path: Path) -> None:
    folder, _, controlnet = theirs
    path = controlnets.write_file(tmp_path / "canny.safetensors", controlnet)
    jobs = [
        open_job(folder / "xl", Settings(rules=(), controlnets=((each, "x"),)))
        for each in (path, folder / "canny")
    ]
    found, usual = (job.checkpoint for job in jobs)
    assert found.configs["controlnet_x"] == usual.configs["controlnet_x"]
    assert {*found.weights["controlnet_x"]} == {*usual.weights["controlnet_x"]}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("layout", ["authors", "diffusers"])
def test_a_small_one_without_a_configuration_is_told_by_its_shapes(
    kind: str, layout: str, theirs: Theirs, tmp_path: Path
) -> None:
    folder, pipeline, _ = theirs
    made = controlnets.write_small(tmp_path / "small", pipeline.unet, kind)
    alone = tmp_path / "alone.safetensors"
    if layout == "authors":
        controlnets.write_file(alone, made)
    else:
        shutil.copy(tmp_path / "small/diffusion_pytorch_model.safetensors", alone)
    found, usual = (
        open_job(folder / "xl", Settings(rules=(), controlnets=((each, "x"),))).checkpoint
        for each in (alone, tmp_path / "small")
    )
    assert found.configs["controlnet_x"] == usual.configs["controlnet_x"]
    assert {*found.weights["controlnet_x"]} == {*usual.weights["controlnet_x"]}


def test_a_controlnet_of_stable_diffusion_1_5_is_refused(theirs: Theirs, tmp_path: Path) -> None:
    unet = checkpoints.modules(checkpoints.TINY)["unet"]
    controlnets.write(tmp_path / "other", unet, **controlnets.OF_TINY)
    settings = Settings(rules=(), controlnets=((tmp_path / "other", None),))
    with pytest.raises(BadCheckpoint, match="addition_embed_type = None, but the U-Net's is text_time"):
        open_job(theirs[0] / "xl", settings)


def test_a_controlnet_of_other_sinusoids_is_refused(theirs: Theirs, tmp_path: Path) -> None:
    controlnets.write(tmp_path / "other", theirs[1].unet, **controlnets.OF_TINY)
    config = json.loads((tmp_path / "other/config.json").read_text())
    # The width of the pooled text, which is the rest, stays.
    config |= {"addition_time_embed_dim": 4, "projection_class_embeddings_input_dim": 24 + 6 * 4}
    (tmp_path / "other/config.json").write_text(json.dumps(config))
    settings = Settings(rules=(), controlnets=((tmp_path / "other", None),))
    with pytest.raises(BadCheckpoint, match="addition_time_embed_dim = 4, but the U-Net's is 8"):
        open_job(theirs[0] / "xl", settings)

"""Checkpoints that diffusers wrote, converted and drawn with, against diffusers' own pipeline."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT
from msd.run.runtime.noise import noise
from tests import checkpoints, tiny_autoencoders
from tests.drawings import KINDS, Drawing

LCM = checkpoints.vary(checkpoints.TINY, unet={"time_cond_proj_dim": 32})


def converted(checkpoint: Path, recipe: str) -> Bundle:
    out = checkpoint.parent / f"{checkpoint.name} {recipe}"
    if not out.exists():
        convert(checkpoint, out, Settings(graph_rewrites.load(), find_recipe(recipe)))
    return open_bundle(out)


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random") / "sd21"
    checkpoints.write(folder, checkpoints.SD21)
    return folder


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distilled") / "lcm"
    checkpoints.write(folder, LCM)
    return folder


START = np.random.default_rng(1).standard_normal((1, 16, 16, 4), np.float32)
VELOCITY = (("prediction_type", "v_prediction"),)
TURBO = (("timestep_spacing", "trailing"),)


@pytest.mark.parametrize("prediction", [(), VELOCITY], ids=["epsilon", "velocity"])
@pytest.mark.parametrize("scheduler", list(KINDS))
def test_every_scheduler_draws_diffusers_picture(
    scheduler: str, prediction: tuple[tuple[str, Any], ...], random: Path
) -> None:
    drawing = Drawing(scheduler, changes=prediction)
    latents, picture, mode = drawing.ours(converted(random, "float32"), START)
    wanted, shown = drawing.theirs(random, START)
    assert psnr(wanted, latents) >= 65
    assert psnr(shown, picture) >= 50
    assert mode == "two passes"


def test_a_unet_without_a_middle_block_draws_diffusers_picture(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "bk", checkpoints.BK_SDM_TINY)
    latents, picture, _ = Drawing("ddim").ours(converted(tmp_path / "bk", "float32"), START)
    wanted, shown = Drawing("ddim").theirs(tmp_path / "bk", START)
    assert psnr(wanted, latents) >= 65
    assert psnr(shown, picture) >= 50


def test_int8_weights_keep_the_picture(random: Path) -> None:
    latents, picture, _ = Drawing("ddim").ours(converted(random, "gpu-w8"), START)
    wanted, shown = Drawing("ddim").theirs(random, START)
    assert psnr(wanted, latents) >= 40
    assert psnr(shown, picture) >= 35


def test_a_tiny_decoder_draws_diffusers_picture(tmp_path: Path) -> None:
    source, other = tmp_path / "source", tmp_path / "own"
    for folder in (source, other):
        checkpoints.write(folder, checkpoints.TINY)
    shutil.rmtree(source / "vae")
    tiny_autoencoders.write(source / "vae", **tiny_autoencoders.SHALLOW)
    index = (source / "model_index.json").read_text().replace("AutoencoderKL", "AutoencoderTiny")
    (source / "model_index.json").write_text(index)
    wanted, shown = Drawing("ddim", 3).theirs(source, START)
    settings = Settings(graph_rewrites.load(), find_recipe("float32"))
    replaced = replace(settings, vae=(source / "vae",))
    for checkpoint, chosen in ((source, settings), (other, replaced)):
        convert(checkpoint, tmp_path / "out", replace(chosen, force=True))
        latents, picture, _ = Drawing("ddim", 3).ours(open_bundle(tmp_path / "out"), START)
        assert psnr(wanted, latents) >= 65
        assert psnr(shown, picture) >= 50


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_turbo_model_draws_in_few_steps_without_guidance(steps: int, random: Path) -> None:
    drawing = Drawing("euler", steps, guidance=0.0, changes=TURBO)
    latents, picture, mode = drawing.ours(converted(random, "float32"), START)
    wanted, shown = drawing.theirs(random, START)
    assert psnr(wanted, latents) >= 65
    assert psnr(shown, picture) >= 50
    assert mode == "none"


@pytest.mark.parametrize("guidance", [8.0, 1.0])
def test_a_distilled_model_is_told_its_guidance(guidance: float, distilled: Path) -> None:
    drawing = Drawing("lcm", 4, guidance)
    latents, picture, mode = drawing.ours(converted(distilled, "float32"), START)
    wanted, shown = drawing.theirs(distilled, START)
    assert psnr(wanted, latents) >= 65
    assert psnr(shown, picture) >= 50
    assert mode == "embedding"


@pytest.mark.parametrize(
    ("scheduler", "steps"), [("ddim", 4), ("dpm++", 4), ("euler", 4), ("euler-a", 4), ("lcm", 2), ("tcd", 3)]
)
def test_the_demo_s_pictures_are_diffusers(scheduler: str, steps: int, demo_float: Path) -> None:
    drawing = Drawing(scheduler, steps, prompt="two red circles over a plain green background")
    latents, picture, _ = drawing.ours(open_bundle(demo_float), noise(3, (1, 16, 16, 4)))
    wanted, shown = drawing.theirs(CHECKPOINT, noise(3, (1, 16, 16, 4)))
    assert psnr(wanted, latents) >= 55
    assert psnr(shown, picture) >= 50

"""Checkpoints that diffusers wrote, converted and drawn with, against diffusers' own pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.convert import Settings, convert
from msd.demo import CHECKPOINT
from msd.parity import psnr
from msd.recipe import find_recipe
from msd.runtime.pipeline import Pipeline, noise
from msd.runtime.scheduler import BY_CLASS, make_scheduler
from tests import checkpoints

PROMPT, NEGATIVE, STEPS = "a red dog!", "blurry", 6
KINDS = {name: kind for kind, name in BY_CLASS.items()}
LCM = checkpoints.vary(checkpoints.TINY, unet={"time_cond_proj_dim": 32})


@dataclass(frozen=True)
class Drawing:
    """What to draw, with what scheduler, and changes of its configuration."""

    scheduler: str
    steps: int = STEPS
    guidance: float = 7.5
    prompt: str = PROMPT
    changes: tuple[tuple[str, Any], ...] = ()

    def ours(self, bundle: Bundle, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        """Our last latents, NHWC, our picture in [0, 1], and the way that guidance took."""
        config = {**bundle.manifest.scheduler, **dict(self.changes)}
        pipeline = Pipeline(bundle)
        pipeline.scheduler = make_scheduler(config, self.scheduler)
        settings = {"steps": self.steps, "guidance": self.guidance, "latents": start}
        picture = pipeline.generate(self.prompt, negative_prompt=NEGATIVE, **settings)
        return picture.latents, picture.pixels / 255, picture.metadata["guidance_mode"]

    def theirs(self, checkpoint: Path, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of diffusers, whose LCM is given our noise."""
        import diffusers

        pipeline, config = opened(checkpoint)
        kind = getattr(diffusers, KINDS[self.scheduler])
        pipeline.scheduler = kind.from_config(config, **dict(self.changes))
        settings: dict[str, Any] = {"negative_prompt": NEGATIVE, "guidance_scale": self.guidance}
        settings |= {"num_inference_steps": self.steps, "output_type": "latent"}
        added = [nchw(noise(0, start.shape, i)) for i in range(1, self.steps)]
        with mock.patch("diffusers.schedulers.scheduling_lcm.randn_tensor", side_effect=added):
            latents = pipeline(self.prompt, latents=nchw(start), **settings).images
        image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
        return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


@cache
def opened(checkpoint: Path) -> tuple[Any, dict[str, Any]]:
    """Diffusers' pipeline in float32, and its scheduler's configuration."""
    import torch
    from diffusers import StableDiffusionPipeline

    settings = {"safety_checker": None, "torch_dtype": torch.float32}
    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, **settings)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline, dict(pipeline.scheduler.config)


def nchw(x: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


def nhwc(x: Any) -> np.ndarray:
    return np.asarray(x.numpy().transpose(0, 2, 3, 1))


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


def test_int8_weights_keep_the_picture(random: Path) -> None:
    latents, picture, _ = Drawing("ddim").ours(converted(random, "gpu-w8"), START)
    wanted, shown = Drawing("ddim").theirs(random, START)
    assert psnr(wanted, latents) >= 40
    assert psnr(shown, picture) >= 35


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


@pytest.mark.parametrize(("scheduler", "steps"), [("ddim", 4), ("dpm++", 4), ("euler", 4), ("lcm", 2)])
def test_the_demo_s_pictures_are_diffusers(scheduler: str, steps: int, demo_float: Path) -> None:
    drawing = Drawing(scheduler, steps, prompt="two red circles over a plain green background")
    latents, picture, _ = drawing.ours(open_bundle(demo_float), noise(3, (1, 16, 16, 4)))
    wanted, shown = drawing.theirs(CHECKPOINT, noise(3, (1, 16, 16, 4)))
    assert psnr(wanted, latents) >= 55
    assert psnr(shown, picture) >= 50

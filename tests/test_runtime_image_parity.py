"""Images that begin from an image, against diffusers' image-to-image and inpainting pipelines.

Both sides get the same pixels, the same posterior's noise, the same initial noise, and the same noise in every
step of a scheduler that adds some.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.conversion.convert import Settings, convert
from msd.demo.captions import scenes
from msd.demo.scenes import draw
from msd.encoding.recipe import find_recipe
from msd.parity import psnr
from msd.runtime.initial_image import InitialImage, open_initial_image
from msd.runtime.noise import noise, posterior_noise
from msd.runtime.pipeline import Pipeline
from msd.runtime.scheduler import make_scheduler
from tests import checkpoints
from tests.drawings import KINDS, nchw, nhwc, opened

STEPS, SEED = 6, 5
WITH_ENCODER = ("text_encoder", "vae_encoder", "unet", "vae_decoder")


@dataclass(frozen=True)
class Case:
    """A bundle and the checkpoint it comes from; `size` is the height and width of its images."""

    checkpoint: Path
    bundle: Bundle
    size: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (1, self.size[0] // 8, self.size[1] // 8, 4)


def converted(checkpoint: Path, out: Path, recipe: str, size: tuple[int, int]) -> Case:
    settings = Settings(
        graph_rewrites.load(), find_recipe(recipe), components=WITH_ENCODER, height=size[0], width=size[1]
    )
    convert(checkpoint, out, settings)
    return Case(checkpoint, open_bundle(out), size)


@pytest.fixture(scope="module", params=["float32", "gpu-w8"])
def ordinary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("ordinary")
    checkpoints.write(folder / "sd21", checkpoints.SD21)
    return converted(folder / "sd21", folder / request.param, request.param, (64, 128))


@pytest.fixture(scope="module", params=["float32", "gpu-w8"])
def inpainting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("inpainting")
    checkpoints.write(folder / "inpainting", checkpoints.INPAINTING)
    return converted(folder / "inpainting", folder / request.param, request.param, (64, 64))


def source(folder: Path, size: tuple[int, int]) -> tuple[Path, Path]:
    """Write a scene of the demo at `size`, and a mask that repaints a disc left of the middle."""
    scene = Image.fromarray(draw(scenes("held-back")[3], 3)).resize(size[::-1])
    scene.save(folder / "image.png")
    rows, columns = np.mgrid[: size[0], : size[1]]
    disc = (rows - size[0] / 2) ** 2 + (columns - size[1] / 3) ** 2 < (size[0] / 3) ** 2
    Image.fromarray(disc.astype(np.uint8) * 255).save(folder / "mask.png")
    return folder / "image.png", folder / "mask.png"


def ours(case: Case, image: InitialImage, strength: float, scheduler: str) -> tuple[np.ndarray, np.ndarray]:
    """Return our last latents, NHWC, and our image in [0, 1]."""
    pipeline = Pipeline(case.bundle)
    pipeline.scheduler = make_scheduler(case.bundle.manifest.scheduler, scheduler)
    image = pipeline.generate("a red dog!", image=image, strength=strength, seed=SEED, steps=STEPS)
    return image.latents, image.pixels / 255


def theirs(
    case: Case, files: tuple[Path, Path | None], strength: float, scheduler: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of diffusers' pipeline."""
    import diffusers

    pipeline, config = opened(case.checkpoint)
    pipeline.scheduler = getattr(diffusers, KINDS[scheduler]).from_config(config)
    kind = "Inpaint" if files[1] else "Img2Img"
    settings: dict[str, Any] = {"image": Image.open(files[0]), "strength": strength}
    if files[1]:
        settings |= {"mask_image": Image.open(files[1]), "height": case.size[0], "width": case.size[1]}
    parts = {k: v for k, v in pipeline.components.items() if k != "image_encoder"}
    begun = getattr(diffusers, f"StableDiffusion{kind}Pipeline")(**parts, requires_safety_checker=False)
    begun.set_progress_bar_config(disable=True)
    with same_noise(case, kind.lower(), skips_image(case, kind, strength)):
        latents = begun(
            "a red dog!", num_inference_steps=STEPS, guidance_scale=7.5, output_type="latent", **settings
        ).images
    image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
    return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


def skips_image(case: Case, kind: str, strength: float) -> bool:
    """Return whether diffusers encodes only the masked image."""
    return kind == "Inpaint" and strength == 1 and case.checkpoint.name == "inpainting"


def same_noise(case: Case, kind: str, only_masked: bool) -> ExitStack:
    """Have diffusers take our noise, wherever it draws some."""
    posterior = [nchw(posterior_noise(SEED, case.shape, stream)) for stream in (1, 2)]
    steps = [nchw(noise(SEED, case.shape, i)) for i in range(1, STEPS)]
    stack = ExitStack()
    for place, values in {
        "models.autoencoders.vae": posterior[only_masked:],
        f"pipelines.stable_diffusion.pipeline_stable_diffusion_{kind}": [nchw(noise(SEED, case.shape))],
        "schedulers.scheduling_lcm": steps,
    }.items():
        stack.enter_context(mock.patch(f"diffusers.{place}.randn_tensor", side_effect=values))
    return stack


@cache
def least(recipe: str) -> tuple[float, float]:
    """Return the least PSNR of latents and of images, in dB, for how weights are stored."""
    return (60.0, 50.0) if recipe == "float32" else (30.0, 30.0)


def assert_same(case: Case, files: tuple[Path, Path | None], strength: float, scheduler: str) -> None:
    image = open_initial_image(files[0], *case.size, mask=files[1])
    latents, picture = ours(case, image, strength, scheduler)
    wanted, shown = theirs(case, files, strength, scheduler)
    of_latents, of_images = least(case.bundle.folder.name)
    assert psnr(wanted, latents) >= of_latents
    assert psnr(shown, picture) >= of_images


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("scheduler", list(KINDS))
def test_image_to_image_is_that_of_diffusers(
    ordinary: Case, scheduler: str, strength: float, tmp_path: Path
) -> None:
    assert_same(ordinary, (source(tmp_path, ordinary.size)[0], None), strength, scheduler)


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("scheduler", ["ddim", "dpm++", "euler"])
def test_an_ordinary_model_repaints_by_blending(
    ordinary: Case, scheduler: str, strength: float, tmp_path: Path
) -> None:
    assert_same(ordinary, source(tmp_path, ordinary.size), strength, scheduler)


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("scheduler", ["ddim", "dpm++", "euler"])
def test_an_inpainting_model_is_given_the_masked_image(
    inpainting: Case, scheduler: str, strength: float, tmp_path: Path
) -> None:
    assert_same(inpainting, source(tmp_path, inpainting.size), strength, scheduler)

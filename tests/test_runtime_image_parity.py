"""Images that begin from an image, against diffusers' image-to-image and inpainting pipelines.

Both sides get the same pixels, the same noise of the posterior and to begin with, and the same noise in every
step of a scheduler that adds some.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.conversion.convert import Settings, convert
from msd.demo import CHECKPOINT
from msd.demo.captions import scenes
from msd.demo.scenes import draw
from msd.encoding.recipe import find_recipe
from msd.errors import BadBundle, BadConfig
from msd.parity import psnr
from msd.runtime.initial_image import InitialImage, open_initial_image
from msd.runtime.noise import noise, posterior_noise
from msd.runtime.pipeline import Pipeline
from msd.runtime.request import Request
from msd.runtime.scheduler import make_scheduler
from tests import checkpoints
from tests.drawings import KINDS, nchw, nhwc, opened

STEPS, SEED = 6, 5
FLOAT, INT8 = (60.0, 50.0), (30.0, 30.0)
"""The least PSNR of latents and of images in dB."""

ENCODER = ("vae_encoder",)


@dataclass(frozen=True, eq=False)
class Case:
    """A bundle and the checkpoint it comes from; `size` is the height and width of its images."""

    checkpoint: Path
    bundle: Bundle
    size: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (1, self.size[0] // 8, self.size[1] // 8, 4)

    @cached_property
    def pipeline(self) -> Pipeline:
        """Our pipeline, its networks loaded once."""
        return Pipeline(self.bundle, execution="resident")


@cache
def converted(checkpoint: Path, recipe: str) -> Case:
    height, width = (64, 128) if checkpoint.name == "sd21" else (64, 64)
    settings = Settings(graph_rewrites.load(), find_recipe(recipe), also=ENCODER, height=height, width=width)
    convert(checkpoint, checkpoint.parent / recipe, settings)
    return Case(checkpoint, open_bundle(checkpoint.parent / recipe), (height, width))


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ordinary") / "sd21"
    checkpoints.write(folder, checkpoints.SD21)
    return folder


@pytest.fixture(scope="module")
def inpainting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inpainting") / "inpainting"
    checkpoints.write(folder, checkpoints.INPAINTING)
    return folder


@pytest.fixture(scope="module")
def demo_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "float32"
    convert(CHECKPOINT, out, Settings(graph_rewrites.load(), find_recipe("float32"), also=ENCODER))
    return out


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
    case.pipeline.scheduler = make_scheduler(case.bundle.manifest.scheduler, scheduler)
    image = case.pipeline.generate("a red dog!", image=image, strength=strength, seed=SEED, steps=STEPS)
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
    settings |= {"eta": 0.3} if scheduler == "tcd" else {}
    with same_noise(case, kind.lower(), skips_image(case, kind, strength), type(pipeline.scheduler)):
        latents = begun(
            "a red dog!", num_inference_steps=STEPS, guidance_scale=7.5, output_type="latent", **settings
        ).images
    image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
    return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


def skips_image(case: Case, kind: str, strength: float) -> bool:
    """Return whether diffusers encodes only the masked image."""
    return kind == "Inpaint" and strength == 1 and case.checkpoint.name == "inpainting"


def same_noise(case: Case, kind: str, only_masked: bool, scheduler: type) -> ExitStack:
    """Have diffusers take our noise, wherever it draws some."""
    posterior = [nchw(posterior_noise(SEED, case.shape, stream)) for stream in (1, 2)]
    steps = [nchw(noise(SEED, case.shape, i)) for i in range(1, STEPS + 1)]
    stack = ExitStack()
    for place, values in {
        "diffusers.models.autoencoders.vae": posterior[only_masked:],
        f"diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_{kind}": [
            nchw(noise(SEED, case.shape))
        ],
        scheduler.__module__: steps,
    }.items():
        stack.enter_context(mock.patch(f"{place}.randn_tensor", side_effect=values, create=True))
    return stack


def assert_same(
    case: Case, folder: Path, masked: bool, strength: float, scheduler: str, least: tuple[float, float]
) -> None:
    """Compare last latents and images; `least` is the PSNR that each must have, in dB."""
    image, mask = source(folder, case.size)
    files = image, mask if masked else None
    latents, picture = ours(case, open_initial_image(image, *case.size, mask=files[1]), strength, scheduler)
    wanted, shown = theirs(case, files, strength, scheduler)
    assert psnr(wanted, latents) >= least[0]
    assert psnr(shown, picture) >= least[1]


@pytest.mark.parametrize(
    ("scheduler", "strength"),
    [*((name, 0.6) for name in KINDS), ("ddim", 0.3), ("ddim", 1.0), ("euler", 1.0)],
)
def test_image_to_image_is_that_of_diffusers(
    ordinary: Path, scheduler: str, strength: float, tmp_path: Path
) -> None:
    assert_same(converted(ordinary, "float32"), tmp_path, False, strength, scheduler, FLOAT)


@pytest.mark.parametrize(
    ("kind", "scheduler", "strength"),
    [
        ("ordinary", "ddim", 0.3),
        ("ordinary", "euler", 0.6),
        ("ordinary", "dpm++", 1.0),
        ("inpainting", "ddim", 0.3),
        ("inpainting", "dpm++", 0.6),
        ("inpainting", "euler", 1.0),
    ],
)
def test_inpainting_is_that_of_diffusers(
    kind: str, scheduler: str, strength: float, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case = converted(request.getfixturevalue(kind), "float32")
    assert_same(case, tmp_path, True, strength, scheduler, FLOAT)


@pytest.mark.parametrize(("kind", "masked"), [("ordinary", False), ("ordinary", True), ("inpainting", True)])
def test_int8_weights_keep_the_image(
    kind: str, masked: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case = converted(request.getfixturevalue(kind), "gpu-w8")
    assert_same(case, tmp_path, masked, 0.6, "ddim", INT8)


def test_the_demo_repaints_a_scene_as_diffusers_does(tmp_path: Path, demo_encoder: Path) -> None:
    case = Case(CHECKPOINT, open_bundle(demo_encoder), (128, 128))
    assert_same(case, tmp_path, False, 0.6, "ddim", FLOAT)
    assert_same(case, tmp_path, True, 0.6, "ddim", FLOAT)


def test_the_same_seed_gives_the_same_image(ordinary: Path, tmp_path: Path) -> None:
    case = converted(ordinary, "float32")
    image = open_initial_image(source(tmp_path, case.size)[0], *case.size)
    first, second = (ours(case, image, 0.6, "ddim")[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = case.pipeline.generate("a red dog!", image=image, strength=0.6, seed=SEED + 1, steps=STEPS)
    assert psnr(first, other.latents) < 40


def test_one_call_mixes_images_with_and_without_a_source(ordinary: Path, tmp_path: Path) -> None:
    case = converted(ordinary, "float32")
    image = open_initial_image(source(tmp_path, case.size)[0], *case.size)
    case.pipeline.scheduler = make_scheduler(case.bundle.manifest.scheduler, "ddim")
    asked = [Request("a dog", steps=3), Request("a dog", steps=3, image=image)]
    together = case.pipeline.generate_all(asked)
    for request, found in zip(asked, together, strict=True):
        alone = case.pipeline.generate_all([request])[0]
        np.testing.assert_array_equal(found.latents, alone.latents)
    assert "image" not in together[0].metadata
    assert together[1].metadata["image"] == image.description
    assert together[1].metadata["strength"] == 0.8


def test_what_does_not_fit_is_refused(
    ordinary: Path, inpainting: Path, tmp_path: Path, demo_float: Path
) -> None:
    case, repainting = converted(ordinary, "float32"), converted(inpainting, "float32")
    file, mask = source(tmp_path, case.size)
    image = open_initial_image(file, *case.size)
    with pytest.raises(BadConfig, match="give an image and a mask"):
        repainting.pipeline.generate("a dog")
    with pytest.raises(BadConfig, match="give an image and a mask"):
        repainting.pipeline.generate("a dog", image=open_initial_image(file, *repainting.size))
    with pytest.raises(BadConfig, match=r"should be \(1, 64, 64, 3\)"):
        repainting.pipeline.generate("a dog", image=open_initial_image(file, *case.size, mask=mask))
    with pytest.raises(BadConfig, match="give the image too"):
        case.pipeline.generate("a dog", strength=0.5)
    with pytest.raises(BadConfig, match="leaves none of 4 steps"):
        case.pipeline.generate("a dog", image=image, strength=0.2, steps=4)
    with pytest.raises(BadBundle, match="no network that encodes images"):
        Pipeline(open_bundle(demo_float)).generate("a dog", image=open_initial_image(file, 128, 128))

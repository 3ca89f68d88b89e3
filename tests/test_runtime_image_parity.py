"""Images that begin from an image, against diffusers' image-to-image and inpainting pipelines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.errors import BadBundle, BadConfig
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.paste import FEATHER, depths
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.run.runtime.scheduler import make_scheduler
from tests import checkpoints
from tests.begun_images import ENCODER, SEED, STEPS, Case, converted, distances, ours, source
from tests.drawings import KINDS

FLOAT, INT8 = (60.0, 50.0), (30.0, 30.0)
"""The least PSNR of latents and of images in dB."""


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


def assert_same(
    case: Case, folder: Path, masked: bool, strength: float, scheduler: str, least: tuple[float, float]
) -> None:
    """Compare last latents and images; `least` is the PSNR that each must have, in dB."""
    found = distances(case, folder, masked, strength, scheduler)
    assert found[0] >= least[0]
    assert found[1] >= least[1]


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


def test_an_inpainting_model_keeps_what_the_mask_keeps(inpainting: Path, tmp_path: Path) -> None:
    case = converted(inpainting, "float32")
    file, mask = source(tmp_path, case.size)
    image = open_initial_image(file, *case.size, mask=mask)
    made = case.pipeline.generate(case.prompt, image=image, seed=SEED, steps=STEPS)
    assert image.mask is not None
    kept = image.mask[0, ..., 0] == 0
    assert 0 < kept.mean() < 1
    assert np.array_equal(made.pixels[kept], pixels(image.pixels[0])[kept])
    whole = case.pipeline.generate(case.prompt, image=image, seed=SEED, steps=STEPS, paste=False)
    assert not np.array_equal(whole.pixels[kept], made.pixels[kept])
    inner = depths(image.mask[0, ..., 0]) == FEATHER
    assert np.array_equal(whole.pixels[inner], made.pixels[inner])


def test_the_same_seed_gives_the_same_image(ordinary: Path, tmp_path: Path) -> None:
    case = converted(ordinary, "float32")
    image = open_initial_image(source(tmp_path, case.size)[0], *case.size)
    first, second = (ours(case, image, 0.6, "ddim")[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = case.pipeline.generate(case.prompt, image=image, strength=0.6, seed=SEED + 1, steps=STEPS)
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
    with pytest.raises(BadConfig, match="leaves no step of 4"):
        case.pipeline.generate("a dog", image=image, strength=0.2, steps=4)
    with pytest.raises(BadBundle, match="has no vae_encoder; msd-convert CHECKPOINT --also"):
        Pipeline(open_bundle(demo_float)).generate("a dog", image=open_initial_image(file, 128, 128))

"""InstructPix2Pix: a U-Net that edits an image, guided by the prompt and by the image."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import msd
from msd.bundle import Bundle, open_bundle
from msd.cli import msd as umbrella
from msd.errors import BadBundle, BadConfig
from msd.export.app import manifest
from msd.graph.parity import psnr
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.needs import latent_shape
from msd.run.runtime.pipeline import Pipeline
from scripts.make_random_checkpoint import Random, write_diffusers
from tests import checkpoints, single_files, tiny_autoencoders
from tests.checkpoints import TINY, vary
from tests.drawings import nchw, nhwc
from tests.late import diffusers, transformers
from tests.stand_in import choose_scheduler

INSTRUCT = "StableDiffusionInstructPix2PixPipeline"


@pytest.fixture(scope="module")
def theirs(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, diffusers.StableDiffusionInstructPix2PixPipeline]:
    folder = tmp_path_factory.mktemp("edit") / "checkpoint"
    made = checkpoints.write(folder, vary(TINY, unet={"in_channels": 8}))
    pipeline = diffusers.StableDiffusionInstructPix2PixPipeline(
        **made,
        tokenizer=transformers.CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        scheduler=diffusers.DDIMScheduler.from_pretrained(folder / "scheduler"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    index = folder / "model_index.json"
    index.write_text(index.read_text().replace("StableDiffusionPipeline", INSTRUCT))
    pipeline.set_progress_bar_config(disable=True)
    return folder, pipeline


@pytest.fixture(scope="module")
def bundle(theirs: tuple[Path, diffusers.StableDiffusionInstructPix2PixPipeline]) -> Bundle:
    out = theirs[0].parent / "out"
    msd.convert(theirs[0], out, recipe="float32")
    return open_bundle(out)


@pytest.fixture(scope="module")
def picture(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    size = bundle.manifest.configuration
    drawn = np.random.default_rng(3).integers(0, 255, (size.height, size.width, 3), np.uint8)
    path = tmp_path_factory.mktemp("picture") / "in.png"
    Image.fromarray(drawn).save(path)
    return path


def test_the_wiring_has_the_image_and_nothing_to_begin_from(bundle: Bundle) -> None:
    wiring = bundle.wiring
    assert [call.component for call in wiring.calls][:2] == ["text_encoder", "vae_encoder"]
    assert (wiring.edited, wiring.initial) == ({"edited_latent"}, None)
    assert wiring.needed_pixels == {"image"}


@pytest.mark.parametrize(("guidance", "by_image"), [(7.5, 1.5), (3.0, 2.25), (1.0, 1.5)])
def test_an_image_is_diffusers_own(
    guidance: float,
    by_image: float,
    bundle: Bundle,
    picture: Path,
    theirs: tuple[Path, diffusers.StableDiffusionInstructPix2PixPipeline],
) -> None:
    made, wanted = both(bundle, theirs[1], picture, guidance=guidance, image_guidance=by_image)
    assert psnr(wanted, made.latents) >= 60
    assert made.metadata["guidance_mode"] == ("none" if guidance == 1 else "three passes")


def test_its_pipeline_replaces_no_settings_of_the_scheduler(
    bundle: Bundle,
    picture: Path,
    theirs: tuple[Path, diffusers.StableDiffusionInstructPix2PixPipeline],
    tmp_path: Path,
) -> None:
    """Unlike Stable Diffusion's own, which is why timesteps may start at 0."""
    pipeline = diffusers.StableDiffusionInstructPix2PixPipeline(
        **theirs[1].components, requires_safety_checker=False
    )
    pipeline.scheduler = diffusers.DDIMScheduler.from_config(pipeline.scheduler.config, steps_offset=0)
    pipeline.set_progress_bar_config(disable=True)
    shutil.copytree(bundle.folder, tmp_path / "out")
    choose_scheduler(tmp_path / "out", json.loads(pipeline.scheduler.to_json_string()))
    made, wanted = both(open_bundle(tmp_path / "out"), pipeline, picture, guidance=7.5, image_guidance=1.5)
    assert psnr(wanted, made.latents) >= 60


def test_the_image_is_encoded_in_tiles_too(
    theirs: tuple[Path, Any], bundle: Bundle, picture: Path, tmp_path: Path
) -> None:
    """Near the whole one, as group norms of tiles are."""
    size = bundle.manifest.configuration
    assert size.height > 16
    msd.convert(theirs[0], tmp_path / "tiles", recipe="float32", vae_tile=16)
    whole, tiles = (
        msd.generate(each, "a red dog", image=picture, steps=4) for each in (bundle, tmp_path / "tiles")
    )
    assert 30 <= psnr(whole.latents, tiles.latents) < 100


def both(
    bundle: Bundle,
    pipeline: diffusers.StableDiffusionInstructPix2PixPipeline,
    picture: Path,
    guidance: float,
    image_guidance: float,
) -> tuple[Any, Any]:
    """Return our image and the latents of diffusers', from the same noise."""
    size = bundle.manifest.configuration
    start = np.random.default_rng(1).standard_normal(latent_shape(bundle), np.float32)
    image = open_initial_image(picture, size.height, size.width, "crop", None)
    wanted = pipeline(
        "a red dog",
        image=Image.fromarray(((image.pixels[0] + 1) * 127.5).round().astype(np.uint8)),
        negative_prompt="blurry",
        num_inference_steps=20,
        guidance_scale=guidance,
        image_guidance_scale=image_guidance,
        latents=nchw(start),
        output_type="latent",
    ).images
    made = Pipeline(bundle).generate(
        "a red dog",
        negative_prompt="blurry",
        image=image,
        steps=20,
        guidance=guidance,
        image_guidance=image_guidance,
        latents=start,
    )
    return made, nhwc(wanted)


def test_an_image_is_the_same_from_a_single_file(picture: Path, tmp_path: Path) -> None:
    config = vary(single_files.FIRST, unet={"in_channels": 8})
    single_files.write(tmp_path / "edit.safetensors", config)
    write_diffusers(tmp_path / "folder", config, Random(0, "float32"))
    index = tmp_path / "folder" / "model_index.json"
    index.write_text(index.read_text().replace('StableDiffusionPipeline"', f'{INSTRUCT}"'))
    pipeline = diffusers.StableDiffusionInstructPix2PixPipeline.from_pretrained(
        tmp_path / "folder", safety_checker=None
    )
    pipeline.set_progress_bar_config(disable=True)
    msd.convert(tmp_path / "edit.safetensors", tmp_path / "out", recipe="float32", width=48, height=32)
    made, wanted = both(open_bundle(tmp_path / "out"), pipeline, picture, guidance=7.5, image_guidance=1.5)
    assert psnr(wanted, made.latents) >= 60


def test_three_rows_are_combined() -> None:
    guidance = Guidance("three passes", 7.0, 2.0)
    rows = np.float32([[1.0], [3.0], [4.0], [0.0], [1.0], [1.0]])
    np.testing.assert_allclose(guidance.combine(rows), [[1 + 2 * 2 + 7 * 1], [0 + 2 * 1 + 0]])
    assert guidance.prompts("a", "b") == ["b", "b", "a"]
    assert guidance.of_image(np.ones((1, 2), np.float32), True).tolist() == [[0, 0], [1, 1], [1, 1]]


def command(bundle: Bundle, *more: object) -> Any:
    words = ("generate", bundle.folder, "-p", "a red dog", "--steps", 1, *more)
    return CliRunner().invoke(umbrella, [*map(str, words)])


def test_the_command_edits_an_image(bundle: Bundle, picture: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    done = command(bundle, "--image", picture, "--image-guidance", 2, "-o", out)
    assert done.exit_code == 0, done.output
    assert out.exists()


def test_what_does_not_go_together_is_refused(bundle: Bundle, picture: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "out.png")
    cases = [
        ((), "reads an image beside the prompt: give one", 1),
        (("--image", picture, "--mask", picture), "edits the whole image: leave the mask out", 1),
        (("--image", picture, "--strength", 0.5), "does not begin from it: leave strength out", 1),
        (("--image-guidance", 2), "--image-guidance", 2),
        (("--image", picture, "--image-guidance", 0.5), "--image-guidance", 2),
    ]
    for more, message, code in cases:
        done = command(bundle, *more, *out)
        assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    with pytest.raises(BadBundle, match=re.escape("guidance by the image too, which apps and pages do not")):
        manifest.describe(bundle)


def test_image_guidance_without_an_edit_is_refused(picture: Path, tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "checkpoint", TINY)
    msd.convert(tmp_path / "checkpoint", tmp_path / "out", also=["vae_encoder"])
    with pytest.raises(BadConfig, match="edits no image: leave image guidance out"):
        msd.generate(tmp_path / "out", "a dog", image=picture, image_guidance=2.0)


def test_image_guidance_without_guidance_is_remarked_on(bundle: Bundle, picture: Path) -> None:
    sentence = "image guidance is not used: guidance of 1 or less leaves none by the image either"
    for guidance, said in ((1.0, True), (2.0, False)):
        made = msd.generate(bundle, "red", image=picture, steps=1, guidance=guidance, image_guidance=2.0)
        assert (sentence in made.metadata.get("remarks", ())) == said


def test_a_tiny_autoencoder_s_latents_of_the_image_to_edit_are_said_to_be_wrong(
    theirs: tuple[Path, diffusers.StableDiffusionInstructPix2PixPipeline], tmp_path: Path
) -> None:
    """They are scaled, and the U-Net reads an AutoencoderKL's, which are not; in diffusers too."""
    tiny = tiny_autoencoders.write(tmp_path / "taesd", **tiny_autoencoders.SHALLOW)
    for half in ("encoder", "decoder"):
        tiny_autoencoders.write_original(tmp_path / f"taesd_{half}.safetensors", tiny, half)
    checkpoints.write(tmp_path / "inpainting", vary(TINY, unet={"in_channels": 9}))
    for source, vae, count in (
        (theirs[0], "taesd", 1),
        (theirs[0], "taesd_encoder.safetensors", 1),
        (theirs[0], "taesd_decoder.safetensors", 0),
        (tmp_path / "inpainting", "taesd", 0),
    ):
        command = ["convert", source, "-o", tmp_path / "out", "--dry-run", "--vae", tmp_path / vae]
        done = CliRunner().invoke(umbrella, [*map(str, command)])
        said = done.stderr.count("warning: images are edited wrongly: the U-Net reads latents of the image")
        assert (done.exit_code, said) == (0, count), done.output

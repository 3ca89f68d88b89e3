"""A picture that begins from one, is steered by the edges of one, decoded in tiles and enlarged.

Real files, the real server, a real browser, SwiftShader's GPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from msd.bundle import Bundle, open_bundle
from msd.cli import msd
from msd.graph.parity import psnr
from msd.run.runtime.control_file import ControlFile, read_control
from msd.run.runtime.needs import read_initial_image
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, controlnets, photos, upscalers
from tests.late import diffusers
from tests.upscalers import Compact
from tests.web.real_site import address_of, fetch_model, generate, open_page, saved

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROMPT, SEED, STEPS = "a hill", 5, 2
HEIGHT, WIDTH = 256, 96
"""Two tiles of the upscaler, one above the other, and two columns of the autoencoder's, of 64 by 64."""
CHECKPOINT = checkpoints.vary(
    checkpoints.SD15,
    unet=checkpoints.TINY["unet"],
    vae={"layers_per_block": 1, "mid_block_add_attention": False},
)
"""Few operations at each step and for each tile, and an autoencoder with Stable Diffusion's four levels."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a ControlNet and an upscaler of 4 times, its page, and a picture that steers."""
    folder = tmp_path_factory.mktemp("optional")
    checkpoints.write(folder / "source", CHECKPOINT)
    unet = diffusers.UNet2DConditionModel.from_pretrained(folder / "source/unet")
    controlnets.write(folder / "edges", unet, **controlnets.OF_SD15)
    network = upscalers.make(Compact, scale=4, features=8, convs=1)
    torch.save({"params": network.state_dict()}, folder / "compact.pth")
    sizes = ["--height", HEIGHT, "--width", WIDTH, "--steps", STEPS, "--recipe", "float32"]
    sizes += ["--vae-tile", 64, "--also", "vae_encoder"]
    parts = ["--controlnet", f"{folder / 'edges'}:canny", "--upscaler", folder / "compact.pth"]
    run_msd("convert", folder / "source", "-o", folder / "bundle", *sizes, *parts)
    said = run_msd("export-web", folder / "bundle", "-o", folder / "site")
    assert "a picture that needs the upscaler fetches" in said
    Image.fromarray(photos.colours(300, 200, seed=3)[..., :3]).save(folder / "picture.png")
    return folder


def run_msd(*words: object) -> str:
    result = CliRunner().invoke(msd, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def verdict(page: Page, folder: Path) -> dict[str, list[float]]:
    """Measure the networks, and return the dB of each one's outputs."""
    page.locator("#tab-verdict").click()
    page.locator("#measure:enabled").click()
    page.locator("#save-verdict:visible").wait_for()
    found = json.loads(saved(page, "#save-verdict", folder).read_text())["networks"]
    assert [network["failure"] for network in found] == [None] * len(found)
    return {each["role"]: [output["psnr_db"] for output in each["outputs"]] for each in found}


def wanted(bundle: Bundle, picture: Path) -> np.ndarray:
    with photos.resampling_across_first():
        control = read_control(bundle, ControlFile("canny", picture, 0.75), 0.0, 0.5, from_photo=True)
        image = read_initial_image(bundle, picture)
    with Pipeline(bundle) as pipeline:
        made = pipeline.generate(
            PROMPT, seed=SEED, steps=STEPS, image=image, strength=1.0, controls=[control], upscale=4
        )
    return made.pixels


def test_a_picture_is_steered_and_enlarged_as_the_runtime_does(browser: Browser, folder: Path) -> None:
    """What it needs more is fetched for it, and not before."""
    problems: list[str] = []
    with address_of(folder / "site") as address:
        page = open_page(browser, address, problems)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        fetch_model(page)
        programs = {url.rsplit("/", 1)[1].split(".")[0] for url in asked if "/programs/" in url}
        assert programs == {"text_encoder", "unet", "vae_decoder", "vae_encoder"}
        page.click("#initial summary")
        page.set_input_files("#image-file", folder / "picture.png")
        page.select_option("#strength", "1")
        page.click("#controls summary")
        page.set_input_files("#control-0-file", folder / "picture.png")
        page.check("#control-0-from-photo")
        page.fill("#control-0-scale", "0.75")
        page.fill("#control-0-until", "0.5")
        page.check("#upscale")
        assert "MB more" in page.inner_text("#upscale-note")
        generate(page, PROMPT, SEED)
        page.wait_for_selector("#upscale-note:empty", state="attached")
        path = saved(page, "#save", folder)
        measured = verdict(page, folder)
        page.close()
    assert problems == []
    assert set(measured) == {*programs, "controlnet_canny", "upscaler"}, "what is there is measured"
    assert all(psnr_db >= 90 for each in measured.values() for psnr_db in each)
    expected = wanted(open_bundle(folder / "bundle"), folder / "picture.png")
    assert expected.shape == (4 * HEIGHT, 4 * WIDTH, 3)
    with Image.open(path) as image:
        found = np.asarray(image.convert("RGB"))
        texts = image.text  # type: ignore[attr-defined]
    assert psnr(expected.astype(float), found.astype(float)) >= 70
    assert texts["upscale"] == "4"
    steering = "canny at 0.75, from 0 until 0.5 by the edges of picture.png: 200×300 pixels"
    assert texts["controls"].startswith(steering)

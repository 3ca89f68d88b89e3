"""The exported page from end to end: real files, the real server, a real browser, SwiftShader's GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from msd.bundle import open_bundle
from msd.cli import msd
from msd.export.web.manifest import RUNTIMES, Runtime
from msd.graph.parity import psnr
from msd.run.runtime.pipeline import Pipeline
from tests.shared import shared_folder
from tests.web.networks import tiny_bundle
from tests.web.real_site import address_of, export, fetch_model, generate, open_page, page_with_model, saved

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROMPT = "two red circles on the left over a striped blue background"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory).folder


def site_of(bundle: Path, runtime: Runtime, factory: pytest.TempPathFactory) -> Path:
    name = f"site-{bundle.name}-{runtime}"
    return shared_folder(factory, name, lambda folder: export(bundle, folder, runtime, (2, 3)) and None)


@pytest.fixture(scope="module")
def tiny_page(browser: Browser, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of the tiny model, fetched once for all tests that can share it."""
    with page_with_model(browser, site_of(tiny, "msd", tmp_path_factory)) as page:
        yield page


def wanted(bundle: Path, prompt: str, seed: int, steps: int, negative: str = "") -> np.ndarray:
    with Pipeline(open_bundle(bundle)) as pipeline:
        image = pipeline.generate(prompt, seed=seed, steps=steps, negative_prompt=negative)
    return image.pixels


def require_picture(page: Page, expected: np.ndarray, folder: Path, least: float) -> dict[str, str]:
    """Save the picture and hold it against `expected`; returns its text chunks."""
    with Image.open(saved(page, "#save", folder)) as image:
        distance = psnr(expected.astype(float), np.asarray(image.convert("RGB")).astype(float))
        assert distance >= least, f"{distance:.1f} dB"
        return {key: str(value) for key, value in image.text.items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_typed_prompt_gives_the_image_of_msd_generate(
    browser: Browser,
    runtime: Runtime,
    demo_int8: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with page_with_model(browser, site_of(demo_int8, runtime, tmp_path_factory)) as page:
        generate(page, PROMPT, 7)
        said = require_picture(page, wanted(demo_int8, PROMPT, 7, 2), tmp_path, 50)
    assert said["prompt"] == PROMPT
    assert (said["seed"], said["steps"], said["guidance"]) == ("7", "2", "7.5")
    assert said["model"] == open_bundle(demo_int8).model_hash


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_second_visit_needs_no_server(
    browser: Browser, runtime: Runtime, tiny: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    problems: list[str] = []
    site = site_of(tiny, runtime, tmp_path_factory)
    with address_of(site) as address:
        page = open_page(browser, address, problems)
        fetch_model(page)
        generate(page, "a first visit", 2**40, "rain")
        page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    page.reload()
    page.locator("#generate:enabled").wait_for()
    generate(page, "a second visit", 5, "snow")
    require_picture(page, wanted(tiny, "a second visit", 5, 2, "snow"), tmp_path, 50)
    page.close()


def test_the_verdict_is_read_by_bench_and_report(tiny_page: Page, tiny: Path, tmp_path: Path) -> None:
    tiny_page.locator("#tab-verdict").click()
    tiny_page.locator("#measure:enabled").click()
    tiny_page.locator("#save-verdict:visible").wait_for()
    path = saved(tiny_page, "#save-verdict", tmp_path)
    networks = {network["role"]: network for network in json.loads(path.read_text())["networks"]}
    assert set(networks) == {"text_encoder", "unet", "vae_decoder"}
    for network in networks.values():
        assert network["failure"] is None
        assert network["delegated"] == network["operations"] > network["dispatches"] > 0
        assert min(output["psnr_db"] for output in network["outputs"]) >= 90
    for command in ("bench", "report"):
        shown = CliRunner().invoke(msd, [command, str(tiny), "--from", str(path)])
        assert shown.exit_code == 0, shown.output
        assert "msd's own kernels" in shown.output


def test_cancelling_keeps_the_model_and_the_next_image_is_right(
    tiny_page: Page, tiny: Path, tmp_path: Path
) -> None:
    tiny_page.locator("#tab-studio").click()
    tiny_page.get_by_label("Prompt", exact=True).fill("never seen")
    tiny_page.locator("#generate").click()
    tiny_page.get_by_role("button", name="Cancel").click()
    tiny_page.locator("#generate:enabled").wait_for()
    generate(tiny_page, "seen", 3)
    require_picture(tiny_page, wanted(tiny, "seen", 3, 2), tmp_path, 50)

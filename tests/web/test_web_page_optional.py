"""Pictures that steer, and larger ones, on the page: what is offered, said, and asked of the worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from msd.run.runtime.control_file import canny
from msd.run.runtime.image import image_of, pixels
from msd.run.runtime.initial_image import open_initial_image
from tests.web.stand_in_site import ARRIVE, LATE, READY, StandInSite, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTH, HEIGHT = 96, 64
CONTROLS = [{"name": "canny", "role": "controlnet_canny"}, {"name": "depth", "role": "controlnet_depth"}]
MODEL = {
    "width": WIDTH,
    "height": HEIGHT,
    "controls": CONTROLS,
    "upscaler": {"role": "upscaler", "scale": 4},
}
ABSENT = {"bytes": {"total": 67_000_000, "there": 0}, "problems": []}
THERE = {"bytes": {"total": 361_000_000, "there": 361_000_000}, "problems": []}
LACKING = "The model needs maxBufferSize of 999; this GPU has 1."
SMALL = {"bytes": {"total": 5_000_000, "there": 0}, "problems": [LACKING]}
SHOWN = {"image": "edges.png", "fromPhoto": False}
OPTIONAL = {"upscaler": ABSENT, "controlnet_canny": THERE, "controlnet_depth": ABSENT}


@pytest.fixture
def site(site: StandInSite) -> StandInSite:
    site.change_inspection(model=MODEL, optional=OPTIONAL)
    return site


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    Image.new("RGB", (400, 100), "white").save(tmp_path / "edges.png")
    return tmp_path / "edges.png"


def chosen(page: Page, edges: Path, number: int = 0) -> None:
    """Choose the picture of a ControlNet, as a visitor does."""
    page.wait_for_selector(READY)
    page.fill("#prompt", "A red door")
    if not page.is_visible(f"#control-{number}-file"):
        page.click("#controls summary")
    page.set_input_files(f"#control-{number}-file", edges)
    page.wait_for_selector(f"#control-{number}-scale")


def middle_row(page: Page, wanted: list[int]) -> list[int]:
    """Return the red of a row of a ControlNet's canvas, when it is as wanted, or after two seconds."""
    row: list[int] = page.locator("#controls canvas").first.evaluate(
        """async (canvas, wanted) => {
            for (let left = 100; ; left--) {
                const { width, height } = canvas;
                const settings = { willReadFrequently: true };
                const copy = new OffscreenCanvas(width, height).getContext('2d', settings);
                copy.drawImage(canvas, 0, 0);
                const { data } = copy.getImageData(0, height / 2, width, 1);
                const red = [...data].filter((_, i) => i % 4 === 0);
                if (!left || red.join() === wanted) return red;
                await new Promise((resolve) => setTimeout(resolve, 20));
            }
        }""",
        ",".join(map(str, wanted)),
    )
    return row


def test_a_picture_steers_with_its_numbers(browser: Browser, site: StandInSite, edges: Path) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        chosen(page, edges)
        assert page.locator("#controls legend").all_inner_texts() == ["canny", "depth"]
        page.fill("#control-0-scale", "0.75")
        page.fill("#control-0-begin", "0.25")
        page.fill("#control-0-until", "0.5")
        chosen(page, edges, 1)
        page.check("#guess")
        page.click(READY)
        page.wait_for_selector("#caption")
        asked = visited.questions("generate")[0]["args"]
        assert asked["controls"] == [
            {"name": "canny", **SHOWN, "scale": 0.75, "begin": 0.25, "until": 0.5},
            {"name": "depth", **SHOWN, "scale": 1, "begin": 0, "until": 1},
        ]
        assert asked["guess"] is True


def test_a_photo_s_edges_steer_and_are_shown(browser: Browser, site: StandInSite, tmp_path: Path) -> None:
    photo = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    photo[:, WIDTH // 2 :] = 255
    Image.fromarray(photo).save(tmp_path / "photo.png")
    with visit(browser, site) as visited:
        page = visited.page
        chosen(page, tmp_path / "photo.png")
        page.check("#control-0-from-photo")
        edges = pixels(canny(image_of(photo)))[0, HEIGHT // 2, :, 0].tolist()
        assert 0 < edges.count(255) < 3
        assert middle_row(page, edges) == edges
        page.uncheck("#control-0-from-photo")
        assert middle_row(page, [*photo[0, :, 0]]) == [*photo[0, :, 0]]
        page.check("#control-0-from-photo")
        page.click(READY)
        page.wait_for_selector("#caption")
        (asked,) = visited.questions("generate")[0]["args"]["controls"]
        assert (asked["image"], asked["fromPhoto"]) == ("photo.png", True)


def test_what_is_transparent_is_shown_over_white(browser: Browser, site: StandInSite, tmp_path: Path) -> None:
    """As the model sees it: black on nothing has edges, though all of its pixels are black."""
    photo = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    photo[:, WIDTH // 2 :, 3] = 255
    Image.fromarray(photo).save(tmp_path / "photo.png")
    seen = open_initial_image(tmp_path / "photo.png", HEIGHT, WIDTH).pixels
    with visit(browser, site) as visited:
        page = visited.page
        chosen(page, tmp_path / "photo.png")
        shown = pixels(seen)[0, HEIGHT // 2, :, 0].tolist()
        assert shown == [255] * (WIDTH // 2) + [0] * (WIDTH // 2)
        assert middle_row(page, shown) == shown
        page.check("#control-0-from-photo")
        edges = pixels(canny(seen))[0, HEIGHT // 2, :, 0].tolist()
        assert 0 < edges.count(255) < 3
        assert middle_row(page, edges) == edges


def test_a_picture_that_was_removed_steers_nothing(browser: Browser, site: StandInSite, edges: Path) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        chosen(page, edges)
        page.get_by_role("button", name="Remove the picture").click()
        assert page.is_hidden("#control-0-scale")
        assert page.is_hidden("#guess")
        page.click(READY)
        page.wait_for_selector("#caption")
        assert {"controls", "guess", "upscale"}.isdisjoint(visited.questions("generate")[0]["args"])


def test_what_cannot_steer_is_refused(
    browser: Browser, site: StandInSite, edges: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.png").write_text("no image", "utf-8")
    with visit(browser, site) as visited:
        page = visited.page
        chosen(page, edges)
        page.fill("#control-0-begin", "0.5")
        page.fill("#control-0-until", "0.5")
        page.click("#controls summary")
        page.click("#generate")
        assert page.is_visible("#control-0-until"), "what is wrong is shown"
        page.fill("#control-0-until", "1")
        page.set_input_files("#control-1-file", tmp_path / "text.png")
        page.wait_for_selector("fieldset:has-text('This browser cannot read the file as an image.')")
        page.click("#generate")
        assert visited.questions("generate") == []


def test_a_picture_is_enlarged_where_that_is_asked_for(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        assert page.inner_text("#upscale-field label") == "Enlarge ×4"
        assert page.inner_text("#upscale-note") == "The first such picture fetches 67 MB more."
        page.fill("#prompt", "A red door")
        page.check("#upscale")
        site.change(hold="enlarging")
        page.click(READY)
        page.wait_for_selector("#stage-report:has-text('Enlarging part 1 of 3')")
        site.change(hold=None)
        page.keyboard.press("Escape")
        page.wait_for_selector(READY)
        page.click(READY)
        page.wait_for_selector("#caption:visible")
        assert [each["args"]["upscale"] for each in visited.questions("generate")] == [4, 4]
        decoded = "image => image.decode().then(() => image.naturalWidth)"
        assert page.locator("#picture").evaluate(decoded) == 4 * WIDTH


def test_what_was_fetched_is_not_announced_again(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.fill("#prompt", "A red door")
        page.check("#upscale")
        site.change_inspection(model=MODEL, optional={**OPTIONAL, "upscaler": THERE})
        page.click(READY)
        page.wait_for_selector("#caption:visible")
        page.wait_for_selector("#upscale-note:empty", state="attached")


def test_what_the_gpu_lacks_is_said_and_not_asked_for(browser: Browser, site: StandInSite) -> None:
    site.change_inspection(model=MODEL, optional={"upscaler": SMALL, "controlnet_canny": SMALL})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        assert page.inner_text("#upscale-note") == LACKING
        assert page.is_disabled("#upscale")
        page.click("#controls summary")
        assert page.is_disabled("#control-0-file")
        assert page.is_enabled("#control-1-file")


def test_a_model_without_them_offers_neither(browser: Browser, site: StandInSite) -> None:
    site.change_inspection(model={"controls": [], "upscaler": None}, optional={})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        assert page.is_hidden("#controls")
        assert page.is_hidden("#upscale-field")


@pytest.mark.parametrize("readable", [True, False])
def test_a_picture_that_is_decoded_late_does_not_replace_a_newer_one(
    readable: bool, browser: Browser, site: StandInSite, edges: Path, tmp_path: Path
) -> None:
    late = tmp_path / "late.png"
    Image.new("RGB", (40, 40), "black").save(late)
    if not readable:
        late.write_bytes(b"")
    with visit(browser, site) as visited:
        page = visited.page
        page.evaluate(LATE)
        page.wait_for_selector(READY)
        page.fill("#prompt", "A red door")
        page.click("#controls summary")
        page.set_input_files("#control-0-file", late)
        chosen(page, edges)
        page.evaluate(ARRIVE)
        white = [255] * WIDTH
        assert middle_row(page, white) == white
        page.click(READY)
        page.wait_for_selector("#caption")
        (asked,) = visited.questions("generate")[0]["args"]["controls"]
        assert asked["image"] == "edges.png"

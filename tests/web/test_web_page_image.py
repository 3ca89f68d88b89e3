"""An image to begin with, on the page: how it is cut, painted on, and what the worker is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from tests.web.node import evaluate
from tests.web.stand_in_site import ARRIVE, LATE, READY, STRENGTHS, StandInSite, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTH, HEIGHT = 96, 64
IMAGE = {"required": False, "inpaints": False, "strengths": STRENGTHS}
BEGINS = {"width": WIDTH, "height": HEIGHT, "image": IMAGE}


@pytest.fixture
def site(site: StandInSite) -> StandInSite:
    """The page with a stand-in for its worker, whose model can begin from an image."""
    site.change_inspection(model=BEGINS)
    return site


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A picture that is wider than the model's: its left and right ends are red, and its middle is green."""
    image = Image.new("RGB", (400, 100), "red")
    image.paste("green", (125, 0, 275, 100))
    image.save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def opened(page: Page, photo: Path) -> None:
    """Choose an image, as a visitor does."""
    page.wait_for_selector(READY)
    page.fill("#prompt", "A red door")
    if not page.is_visible("#image-file"):
        page.click("#initial summary")
    page.set_input_files("#image-file", photo)
    page.wait_for_selector("#image-tools")


def test_an_image_is_sent_with_its_strength_and_cut_as_the_model_sees_it(
    browser: Browser, site: StandInSite, photo: Path
) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        opened(page, photo)
        assert page.locator("#strength option").all_inner_texts() == ["10 %", "50 %", "80 %", "100 %"]
        assert page.input_value("#strength") == "0.8"
        colours = page.evaluate(
            """() => {
                const canvas = document.getElementById('image-canvas');
                const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                const at = [[1, 1], [94, 62], [48, 32]].map(([x, y]) => 4 * (y * canvas.width + x));
                return [canvas.width, canvas.height, ...at.map((first) => [...data.slice(first, first + 4)])];
            }"""
        )
        green = [0, 128, 0, 255]
        assert colours == [WIDTH, HEIGHT, green, green, green]
        page.select_option("#strength", "0.5")
        page.click(READY)
        page.wait_for_selector("#caption")
        asked = visited.questions("generate")[0]["args"]
        assert (asked["image"], asked["strength"]) == ("photo.png", 0.5)
        assert "mask" not in asked


def test_strengths_are_those_of_the_steps(browser: Browser, site: StandInSite, photo: Path) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        opened(page, photo)
        page.select_option("#steps", "4")
        assert page.locator("#strength option").all_inner_texts() == ["50 %", "100 %"]
        assert page.input_value("#strength") == "1"


def test_an_image_that_was_removed_is_not_sent(browser: Browser, site: StandInSite, photo: Path) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        opened(page, photo)
        page.click("#remove-image")
        assert page.is_hidden("#image-tools")
        page.click(READY)
        page.wait_for_selector("#caption")
        assert {"image", "mask", "strength"}.isdisjoint(visited.questions("generate")[0]["args"])


def test_a_file_that_is_no_image_is_refused(browser: Browser, site: StandInSite, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image", "utf-8")
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.click("#initial summary")
        page.set_input_files("#image-file", tmp_path / "text.png")
        page.wait_for_selector("#image-note:has-text('This browser cannot read the file as an image.')")
        page.fill("#prompt", "A red door")
        page.click("#generate")
        assert visited.questions("generate") == []


def painted(page: Page, visited: Any) -> npt.NDArray[np.uint8]:
    """Generate, and return the mask that the worker got."""
    page.click(READY)
    page.wait_for_selector("#caption:visible")
    mask = visited.questions("generate")[-1]["args"]["mask"]
    return np.array(mask, np.uint8).reshape(HEIGHT, WIDTH)


def test_what_a_pointer_marks_is_the_mask(browser: Browser, site: StandInSite, photo: Path) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        opened(page, photo)
        page.check("#repaint")
        assert page.input_value("#strength") == "1"
        assert page.inner_text("#image-note") == "Mark what to repaint in the image."
        page.click("#generate")
        assert visited.questions("generate") == []
        page.locator("#mask-canvas").scroll_into_view_if_needed()
        box = page.locator("#mask-canvas").bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.up()
        mask = painted(page, visited)
        radius = 12 / 200 * WIDTH
        rows, columns = np.nonzero(mask)
        assert abs(rows.min() - (HEIGHT / 2 - radius)) <= 1.5
        assert abs(rows.max() - (HEIGHT / 2 + radius)) <= 1.5
        assert abs(columns.min() - (WIDTH / 4 - radius)) <= 1.5
        assert abs(columns.max() - (WIDTH / 2 + radius)) <= 1.5
        assert set(np.unique(mask)) == {0, 1}


def test_a_model_that_repaints_needs_an_image_and_marks_made_with_keys(
    browser: Browser, site: StandInSite, photo: Path
) -> None:
    site.change_inspection(
        model={**BEGINS, "image": {"required": True, "inpaints": True, "strengths": STRENGTHS}}
    )
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.fill("#prompt", "A red door")
        assert page.inner_text("#image-note") == "This model repaints a part of an image: choose an image."
        page.click("#generate")
        assert visited.questions("generate") == []
        opened(page, photo)
        assert page.is_hidden("#repaint")
        page.focus("#mask-canvas")
        for key in ("ArrowRight", "ArrowUp", " "):
            page.keyboard.press(key)
        mask = painted(page, visited)
        rows, columns = np.nonzero(mask)
        radius = 12 / 200 * WIDTH
        assert abs(rows.mean() + 0.5 - (HEIGHT / 2 - radius)) < 0.5
        assert abs(columns.mean() + 0.5 - (WIDTH / 2 + radius)) < 0.5
        page.click("#clear-mask")
        assert page.inner_text("#image-note") == "Mark what to repaint in the image."


STROKE = """
import { Mask } from './page/mask.js';
const [width, height, from, to, radius, value] = input;
const mask = new Mask(width, height);
if (!value) mask.pixels.fill(1);
mask.stroke(from, to, radius, value);
console.log(JSON.stringify([...mask.pixels]));
"""


@pytest.mark.parametrize(
    ("start", "end", "radius", "value"),
    [
        ((5.0, 4.0), (5.0, 4.0), 3.0, 1),
        ((-2.0, 3.0), (20.0, 9.5), 2.5, 1),
        ((12.5, 8.5), (3.0, 0.0), 1.0, 0),
        ((30.0, 30.0), (40.0, 30.0), 4.0, 1),
    ],
)
def test_a_stroke_is_every_pixel_near_its_segment(
    start: tuple[float, float], end: tuple[float, float], radius: float, value: int
) -> None:
    width, height = 17, 11
    found = np.array(evaluate(STROKE, width, height, start, end, radius, value)).reshape(height, width)
    y, x = np.mgrid[0:height, 0:width] + 0.5
    points = np.linspace(start, end, 4001)
    distance = np.sqrt((x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2).min(-1)
    near = distance <= radius
    sure = np.abs(distance - radius) > 1e-3
    assert ((found == value) == near)[sure].all()


@pytest.mark.parametrize("readable", [True, False])
def test_an_image_that_is_decoded_late_does_not_replace_a_newer_one(
    readable: bool, browser: Browser, site: StandInSite, photo: Path, tmp_path: Path
) -> None:
    late = tmp_path / "late.png"
    Image.new("RGB", (96, 64), "blue").save(late)
    if not readable:
        late.write_bytes(b"")
    with visit(browser, site) as visited:
        page = visited.page
        page.evaluate(LATE)
        page.wait_for_selector(READY)
        page.click("#initial summary")
        page.set_input_files("#image-file", late)
        opened(page, photo)
        page.evaluate(ARRIVE)
        middle = "document.getElementById('image-canvas').getContext('2d').getImageData(48, 32, 1, 1).data"
        assert page.evaluate(f"[...{middle}]") == [0, 128, 0, 255]
        page.click(READY)
        page.wait_for_selector("#caption")
        assert visited.questions("generate")[0]["args"]["image"] == "photo.png"

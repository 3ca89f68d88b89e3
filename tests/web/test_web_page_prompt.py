"""What the page says of a prompt and of the GPU that draws it, and its example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.stand_in_site import READY, StandInSite, generate, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_remarks_on_the_prompt_are_shown_until_the_next_picture(browser: Browser, site: StandInSite) -> None:
    said = ["read as text: BREAK; prompts are cut", "the prompt is empty"]
    site.change(remarks=said)
    with visit(browser, site) as visited:
        page = visited.page
        generate(page)
        assert page.locator("#remarks li").all_inner_texts() == said
        site.change(remarks=None)
        generate(page, seed="8")
        assert page.is_hidden("#remarks")


@pytest.mark.parametrize(("width", "height"), [(1280, 857), (390, 740)])
def test_progress_is_in_view_above_the_picture_that_is_being_made(
    width: int, height: int, browser: Browser, site: StandInSite
) -> None:
    site.change(hold="denoising 0")
    with visit(browser, site) as visited:
        page = visited.page
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_selector(READY)
        assert page.inner_text("#empty") == "Your picture appears here."
        page.fill("#prompt", "a lighthouse")
        page.click("#generate")
        page.wait_for_selector("#stage-report:has-text('Step 1 of')")
        report, frame = (page.locator(each).bounding_box() for each in ("#stage-report", "#frame"))
        assert report
        assert frame
        assert 0 <= report["y"] < report["y"] + report["height"] <= min(height, frame["y"])
        assert page.inner_text("#empty") == "Your picture is being made."
        page.keyboard.press("Escape")
        page.wait_for_selector("#generate:not([disabled])")
        assert page.inner_text("#empty") == "Your picture appears here."


def test_the_button_with_an_example_keeps_off_the_prompt(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        visited.page.wait_for_selector(READY)
        button, prompt = (visited.page.locator(each).bounding_box() for each in ("#example", "#prompt"))
        assert button
        assert prompt
        assert prompt["y"] - button["y"] - button["height"] >= 4


def test_the_example_is_the_model_s(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        visited.page.click("#example")
        assert visited.page.input_value("#prompt") == "a photograph of an astronaut riding a horse"
    site.change_inspection(model={"example": ""})
    with visit(browser, site) as visited:
        visited.page.wait_for_selector(READY)
        assert visited.page.is_hidden("#example")


LESS = (
    "This browser offers no 16-bit arithmetic on this GPU: a picture takes more memory, and may take longer."
)


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_a_gpu_without_16_bits_is_said_to_cost_more(
    precision: str, browser: Browser, site: StandInSite
) -> None:
    site.change_inspection(gpu={"name": "arm mali", "precision": precision, "problems": []})
    with visit(browser, site) as visited:
        visited.page.wait_for_selector(READY)
        assert visited.page.is_visible("#slower") == (precision == "fp32")
        assert visited.page.text_content("#slower") == LESS

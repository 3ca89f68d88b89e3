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


def test_the_example_is_the_model_s(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        visited.page.click("#example")
        assert visited.page.input_value("#prompt") == "a photograph of an astronaut riding a horse"
    site.change_inspection(model={"example": ""})
    with visit(browser, site) as visited:
        visited.page.wait_for_selector(READY)
        assert visited.page.is_hidden("#example")


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_a_gpu_without_16_bits_is_said_to_be_slower(
    precision: str, browser: Browser, site: StandInSite
) -> None:
    site.change_inspection(gpu={"name": "arm mali", "precision": precision, "problems": []})
    with visit(browser, site) as visited:
        visited.page.wait_for_selector(READY)
        assert visited.page.is_visible("#slower") == (precision == "fp32")
        assert visited.page.text_content("#slower") == "Slower: no 16-bit arithmetic here"

"""The page in Chromium, with a stand-in for its worker: what it asks, shows, keeps and says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.web.browser import PATIENCE
from tests.web.stand_in_site import (
    MODEL,
    PROMPT,
    READY,
    StandInSite,
    Visit,
    generate,
    picture_bytes,
    visit,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROBLEM = "#stage-report .problem"


def test_a_typed_prompt_is_what_the_worker_is_asked_for(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.fill("#negative-prompt", "blurry")
        page.select_option("#steps", "10")
        page.fill("#guidance", "3.25")
        generate(page, seed="123")
        asked = visited.questions("generate")
        assert [each["args"] for each in asked] == [
            {
                "prompt": PROMPT,
                "negativePrompt": "blurry",
                "seed": 123,
                "steps": 10,
                "guidance": 3.25,
                "previewEvery": 2,
            }
        ]
        assert page.get_attribute("#picture", "alt") == f"The picture for: {PROMPT}"


def test_the_largest_seed_is_exact_and_a_larger_one_is_refused(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        generate(page, seed=str((1 << 63) - 1))
        assert visited.questions("generate")[0]["args"]["seed"] == "9223372036854775807"
        for wrong in (str(1 << 63), "-1", "1.5", "seven"):
            page.fill("#seed", wrong)
            page.click("#generate")
            message = page.eval_on_selector("#seed", "seed => seed.validationMessage")
            assert message == "A seed is a whole number from 0 to 9223372036854775807."
        assert len(visited.questions("generate")) == 1


@pytest.mark.parametrize(("steps", "said"), [(1, "1 step"), (4, "4 steps")])
def test_a_caption_counts_steps(steps: int, said: str, browser: Browser, site: StandInSite) -> None:
    site.change_inspection(model={"steps": [steps]})
    with visit(browser, site) as visited:
        generate(visited.page)
        assert f"\nSeed 7, {said}, guidance 7.5, made in " in visited.page.inner_text("#caption")


def test_without_a_seed_each_picture_has_another_and_shows_it(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.fill("#prompt", PROMPT)
        for number in range(2):
            page.click(READY)
            page.wait_for_selector(f"#history-list li >> nth={number}")
            page.wait_for_selector(READY)
        seeds = [each["args"]["seed"] for each in visited.questions("generate")]
        assert len(set(seeds)) == 2
        assert all(0 <= seed < 1 << 32 for seed in seeds)
        assert f"Seed {seeds[1]}," in page.inner_text("#caption")
        page.click("#dice")
        assert re.fullmatch(r"\d+", page.input_value("#seed"))


def test_an_empty_prompt_is_not_generated(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        visited.page.click(READY)
        visited.page.keyboard.press("Control+Enter")
        assert visited.page.eval_on_selector("#prompt", "prompt => prompt.validity.valueMissing")
        assert visited.questions("generate") == []


@pytest.mark.parametrize(
    ("mode", "guidance", "shown"),
    [
        ("two passes", "7.5", True),
        ("batch 2", "1.5", True),
        ("two passes", "1", False),
        ("embedding", "7.5", False),
    ],
)
def test_a_negative_prompt_needs_a_second_pass(
    browser: Browser, site: StandInSite, mode: str, guidance: str, shown: bool
) -> None:
    site.change_inspection(model={"mode": mode})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.fill("#guidance", "2")
        if page.is_visible("#negative-prompt"):
            page.fill("#negative-prompt", "blurry")
        page.fill("#guidance", guidance)
        assert page.is_visible("#negative-prompt") == shown
        generate(page)
        assert visited.questions("generate")[0]["args"]["negativePrompt"] == ("blurry" if shown else "")


@pytest.mark.parametrize(
    ("hold", "text", "value", "preview"),
    [
        ("loading text encoder", "Compiling the text encoder", None, False),
        ("loading U-Net", "Compiling the U-Net", None, False),
        ("encoding", "Reading the prompt", None, False),
        ("denoising 0", "Step 1 of 20", 0, False),
        ("denoising 7", "Step 7 of 20, 1.2 s each, 16 s left", 0.35, True),
        ("denoising 20", "Step 20 of 20, 1.2 s each", 1, True),
        ("loading VAE decoder", "Compiling the VAE decoder", None, True),
        ("decoding", "Decoding", None, True),
    ],
)
def test_progress_says_what_is_done_and_escape_ends_it(
    browser: Browser, site: StandInSite, hold: str, text: str, value: float | None, preview: bool
) -> None:
    site.change(hold=hold)
    with visit(browser, site) as visited:
        page = visited.page
        page.fill("#prompt", PROMPT)
        page.click(READY)
        page.wait_for_selector(f"#stage-report .progress p:text-is('{text}')")
        bar = "#stage-report progress"
        assert page.eval_on_selector(bar, "bar => bar.hasAttribute('value') ? bar.value : null") == value
        assert page.is_visible("#preview") == preview
        page.keyboard.press("Escape")
        page.wait_for_selector(READY)
        asked = visited.questions("generate")[0]["id"]
        assert [each["args"] for each in visited.questions("cancel")] == [asked]
        assert not page.is_visible(PROBLEM)
        assert page.inner_text("#announcer") == "It was cancelled."
        assert page.is_visible("#empty")


def test_a_model_is_fetched_when_its_button_is_pressed(browser: Browser, site: StandInSite) -> None:
    site.change_inspection(bytes={"total": 1_280_000_000, "there": 0})
    site.change(hold="fetching 412000000")
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector("#fetch:text-is('Fetch the model (1,280 MB)')")
        assert page.is_disabled("#generate")
        assert page.inner_text("#form-note") == "The model has to be fetched first."
        assert visited.questions("fetch") == []
        page.fill("#prompt", PROMPT)
        page.click("#fetch")
        page.wait_for_selector("#checks-report p:text-is('Fetching 412 of 1,280 MB')")
        page.click("#checks-report button:text-is('Cancel')")
        page.wait_for_selector("#fetch:not(:disabled)")
        site.change(hold=None)
        page.click("#fetch")
        page.wait_for_selector(READY)
        assert page.is_hidden("#checks")
        assert page.input_value("#prompt") == PROMPT
        assert page.inner_text("#space-text") == (
            "The model takes 1,280 MB on this device, and 34.2 GB are free."
        )


def test_what_remains_to_be_fetched_is_named(browser: Browser, site: StandInSite) -> None:
    site.change_inspection(bytes={"total": 1_280_000_000, "there": 468_000_000})
    with visit(browser, site) as visited:
        visited.page.wait_for_selector("#fetch:text-is('Fetch the rest of the model (812 MB)')")


CHECKS: list[tuple[dict[str, Any], list[str], bool]] = [
    (
        {},
        [
            "WebGPU works here, in float16: qualcomm adreno-7xx.",
            "There is room for the model: 34.2 GB are free.",
        ],
        True,
    ),
    (
        {"gpu": {"name": "arm mali", "precision": "fp32", "problems": []}},
        ["WebGPU works here, in float32: arm mali."],
        True,
    ),
    (
        {"gpu": {"name": "", "precision": "fp32", "problems": ["This browser has no WebGPU."]}},
        [
            "This browser has no WebGPU.",
            "These browsers have WebGPU: Chrome and Edge from version 113",
            "Firefox from",
        ],
        False,
    ),
    (
        {"space": {"used": 0, "available": 900_000_000}},
        ["The model needs 1,280 MB of storage, and this browser may use 900 MB. Make room on this device."],
        False,
    ),
    (
        {"space": {"used": 0}},
        ["The model needs 1,280 MB of storage; this browser does not say how much is free."],
        True,
    ),
    (
        {"memory": 900e9},
        ["Generating takes up to 900.0 GB of memory, and this device says that it has"],
        True,
    ),
]


@pytest.mark.parametrize(("facts", "sentences", "allowed"), CHECKS)
def test_the_checks_come_before_anything_large(
    browser: Browser, site: StandInSite, facts: dict[str, Any], sentences: list[str], allowed: bool
) -> None:
    site.change_inspection(**{"bytes": {"total": 1_280_000_000, "there": 0}, **facts})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector("#checks")
        said = page.inner_text("#checks-list")
        assert [sentence for sentence in sentences if sentence not in said] == []
        assert page.is_visible("#fetch") == allowed
        assert page.is_visible("#check-again") != allowed
        assert page.is_disabled("#generate")


def test_checking_again_finds_what_has_changed(browser: Browser, site: StandInSite) -> None:
    site.change_inspection(gpu={"name": "", "precision": "fp32", "problems": ["There is no GPU."]})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector("#check-again")
        assert page.inner_text("#form-note") == "This device or browser cannot run the model."
        site.change_inspection()
        page.click("#check-again")
        page.wait_for_selector(READY)
        assert page.is_hidden("#checks")


ERRORS = {
    "no-webgpu": ("This browser has no WebGPU", ["Load the page anew"]),
    "too-small": ("This GPU is too small for the model", ["Try again"]),
    "device-lost": ("The GPU was lost", ["Try again", "Load the page anew"]),
    "out-of-memory": ("The GPU ran out of memory", ["Try again", "Load the page anew"]),
    "damaged": ("A piece of the model is damaged", ["Fetch it again"]),
    "offline": ("The server cannot be reached", ["Try again"]),
    "storage-full": ("There is too little room", ["Try again", "Make room"]),
    "bad-request": ("This model cannot do that", []),
    "bad-manifest": ("This page and its model do not fit together", ["Load the page anew"]),
    "failed": ("Something went wrong", ["Try again", "Load the page anew"]),
}


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_has_a_sentence_and_a_way_on(browser: Browser, site: StandInSite, code: str) -> None:
    title, ways = ERRORS[code]
    with visit(browser, site) as visited:
        page = visited.page
        generate(page, seed="1")
        before = picture_bytes(page)
        site.change(fail={"generate": code})
        page.fill("#seed", "2")
        page.click(READY)
        page.wait_for_selector(f"{PROBLEM} h2:text-is('{title}')")
        assert f"The stand-in fails with {code}." in page.inner_text(PROBLEM)
        assert page.locator(f"{PROBLEM} button").all_inner_texts() == ways
        assert title in page.inner_text("#announcer")
        assert picture_bytes(page) == before
        assert (page.input_value("#prompt"), page.input_value("#seed")) == (PROMPT, "2")
        site.change(fail={})
        if ways[:1] in (["Try again"], ["Fetch it again"]):
            page.click(f"{PROBLEM} button >> nth=0")
            page.wait_for_selector("#caption:has-text('Seed 2,')")
            assert page.is_hidden(PROBLEM)
        elif ways:
            page.click(f"{PROBLEM} button >> nth=0")
            page.wait_for_selector(READY)
            assert page.input_value("#prompt") == PROMPT


def test_a_model_that_cannot_be_looked_at_is_looked_at_again(browser: Browser, site: StandInSite) -> None:
    site.change(fail={"inspect": "offline"})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(f"{PROBLEM} h2:text-is('The server cannot be reached')")
        page.fill("#prompt", PROMPT)
        assert page.inner_text("#form-note") == "The description of the model could not be read."
        site.change(fail={})
        page.click(f"{PROBLEM} button")
        page.wait_for_selector(READY)
        assert page.is_hidden(PROBLEM)


def test_make_room_leads_to_where_pictures_are_deleted(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        generate(page)
        site.change(fail={"generate": "storage-full"})
        page.click(READY)
        page.click(f"{PROBLEM} button:text-is('Make room')")
        assert page.evaluate("document.activeElement.id") == "delete-all"


def test_the_verdict_shows_each_network_and_is_saved_whole(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.click("#tab-verdict")
        page.click("#measure:not(:disabled)")
        page.wait_for_selector("#save-verdict")
        said = page.inner_text("#verdict")
        expected = [
            "qualcomm adreno-7xx",
            "float16",
            "It does not measure OpenCL",
            "2020 of 2020 operations",
            "812",
        ]
        expected += [
            "4.2 s",
            "41.0 ms",
            "1.2 s",
            "51.7 dB",
            "1,400 MB",
            "The GPU has too little memory.",
            "Median of 3 runs",
        ]
        assert [text for text in expected if text not in said] == []
        assert [each["args"] for each in visited.questions("verdict")] == [{"repeats": 5}]
        with page.expect_download() as download:
            page.click("#save-verdict")
        assert json.loads(Path(download.value.path()).read_text("utf-8")) == site.settings["verdict"]
        page.click("#tab-studio")
        assert page.is_visible("#form")
        assert page.is_hidden("#verdict")


def test_a_verdict_is_cancelled_and_its_errors_are_told_where_it_is(
    browser: Browser, site: StandInSite
) -> None:
    site.change(hold="measuring U-Net")
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.click("#tab-verdict")
        page.click("#measure:not(:disabled)")
        page.wait_for_selector("#verdict-report p:has-text('Measuring the U-Net')")
        page.keyboard.press("Escape")
        page.wait_for_selector("#measure:not(:disabled)")
        site.change(fail={"verdict": "device-lost"}, hold=None)
        page.click("#measure")
        page.wait_for_selector("#verdict-report h2:text-is('The GPU was lost')")
        assert page.locator("#stage-report .problem").is_hidden()


def test_the_page_names_no_field_that_the_model_lacks(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        assert page.is_hidden("#initial")
        names = f"The model {MODEL['name']} makes pictures of 512 by 512 pixels with the scheduler DDIM."
        assert page.inner_text("#model-facts").startswith(names)


def test_a_worker_that_ends_is_started_again(browser: Browser, site: StandInSite, tmp_path: Path) -> None:
    worker = tmp_path / "site/worker.js"
    whole = worker.read_text("utf-8")
    worker.write_text("throw new Error('no such thing');", "utf-8")
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE)
        page = Visit(context.new_page(), site.address).page
        page.wait_for_selector(f"{PROBLEM} h2:text-is('Something went wrong')")
        assert "no such thing" in page.inner_text(PROBLEM)
        worker.write_text(whole, "utf-8")
        page.click(f"{PROBLEM} button:text-is('Try again')")
        page.wait_for_selector(READY)

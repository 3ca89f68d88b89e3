"""The page for everybody: axe-core's rules, the keyboard alone, small and large screens, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.web.browser import PATIENCE
from tests.web.node import packages
from tests.web.stand_in_site import READY, STRENGTHS, StandInSite, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOTAL = {"total": 1_280_000_000}
IMAGE = {"required": False, "inpaints": False, "strengths": STRENGTHS}
SCREENS = {"phone": {"width": 360, "height": 740}, "desk": {"width": 1280, "height": 800}}
FIRST_PAINT_BYTES = 100_000
CUT = """[...document.querySelectorAll('button')].filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => each.textContent)"""
"""Buttons that are narrower than their text."""


@pytest.fixture
def site(site: StandInSite) -> StandInSite:
    """The page with a stand-in for its worker, whose model is there and can begin from an image."""
    site.change_inspection(model={"image": IMAGE})
    return site


def before(page: Page, site: StandInSite) -> None:
    """Show a model that has to be fetched."""
    page.wait_for_selector(READY)
    site.change_inspection(bytes={**TOTAL, "there": 0})
    page.reload()
    page.wait_for_selector("#fetch")


def blocked(page: Page, site: StandInSite) -> None:
    """Show a device without a GPU, and without room."""
    page.wait_for_selector(READY)
    gpu = {"name": "", "precision": "fp32", "problems": ["This browser has no WebGPU."]}
    site.change_inspection(bytes={**TOTAL, "there": 0}, gpu=gpu, space={"used": 0, "available": 3_000_000})
    page.reload()
    page.wait_for_selector("#check-again")


def optional(page: Page, site: StandInSite) -> None:
    """Show a model with ControlNets and an upscaler, and a picture that steers."""
    page.wait_for_selector(READY)
    controls = [{"name": name, "role": f"controlnet_{name}"} for name in ("canny", "depth")]
    bytes_ = {"total": 67_000_000, "there": 0}
    site.change_inspection(
        model={"controls": controls, "upscaler": {"role": "upscaler", "scale": 4}},
        optional={"upscaler": {"bytes": bytes_, "problems": []}},
    )
    page.reload()
    page.click("#controls summary")
    image = Path(__file__).parents[2] / "docs/images/demo.png"
    page.set_input_files("#control-0-file", image)
    page.wait_for_selector("#control-0-scale")


def fetching(page: Page, site: StandInSite) -> None:
    """Show how a model is fetched."""
    before(page, site)
    site.change(hold="fetching 412000000")
    page.click("#fetch")
    page.wait_for_selector("#checks-report p:has-text('412')")


def rest(page: Page, site: StandInSite) -> None:
    """Show a model of which a part has been fetched."""
    page.wait_for_selector(READY)
    site.change_inspection(bytes={**TOTAL, "there": 12_000_000})
    page.reload()
    page.wait_for_selector("#fetch:has-text('1,268 MB')")


def typed(page: Page, site: StandInSite) -> None:
    """Show a form whose prompts have a word that no line holds."""
    page.wait_for_selector(READY)
    for field in ("#prompt", "#negative-prompt"):
        page.fill(field, "w" * 200)


def ready(page: Page, site: StandInSite) -> None:
    """Show an empty form, with all that it has unfolded."""
    page.wait_for_selector(READY)
    page.click("#initial summary")


def painting(page: Page, site: StandInSite) -> None:
    """Show an image that marks are painted on."""
    ready(page, site)
    page.set_input_files("#image-file", Path(__file__).parents[2] / "docs/images/demo.png")
    page.check("#repaint")
    page.wait_for_selector("#mask-canvas")
    page.focus("#mask-canvas")
    page.keyboard.press(" ")


def generating(page: Page, site: StandInSite) -> None:
    """Show a picture on its way."""
    site.change(hold="denoising 8")
    page.fill("#prompt", "A wooden sailing boat off a rocky coast at dusk, oil on canvas")
    page.click(READY)
    page.wait_for_selector("#stage-report p:has-text('Step 8')")


def done(page: Page, site: StandInSite) -> None:
    """Show three pictures."""
    page.fill("#prompt", "A wooden sailing boat off a rocky coast at dusk, oil on canvas")
    for seed in ("4", "123456", str((1 << 63) - 1)):
        page.fill("#seed", seed)
        page.click(READY)
        page.wait_for_selector(f"#caption:has-text('Seed {seed},')")
        page.wait_for_selector(READY)


def failed(page: Page, site: StandInSite) -> None:
    """Show an error beside a picture."""
    done(page, site)
    site.change(fail={"generate": "storage-full"})
    page.click(READY)
    page.wait_for_selector("#stage-report .problem")


def measured(page: Page, site: StandInSite) -> None:
    """Show what the GPU makes of the networks."""
    page.wait_for_selector(READY)
    page.click("#tab-verdict")
    page.click("#measure:not(:disabled)")
    page.wait_for_selector("#save-verdict")


def asked(page: Page, site: StandInSite) -> None:
    """Show the question before the model is deleted."""
    page.wait_for_selector(READY)
    page.click("#delete-model")
    page.wait_for_selector("#dialog")


STATES: list[Callable[[Page, StandInSite], None]] = [
    before,
    blocked,
    fetching,
    rest,
    ready,
    typed,
    painting,
    optional,
    generating,
    done,
    failed,
    measured,
    asked,
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_every_state_fits_every_screen_and_axe_finds_nothing(
    browser: Browser,
    site: StandInSite,
    state: Callable[[Page, StandInSite], None],
    screen: str,
    scheme: str,
    tmp_path: Path,
) -> None:
    axe = (packages() / "axe-core/axe.min.js").read_text("utf-8")
    settings: dict[str, Any] = {
        "viewport": SCREENS[screen],
        "color_scheme": scheme,
        "reduced_motion": "reduce",
    }
    with visit(browser, site, **settings) as visited:
        page = visited.page
        state(page, site)
        page.screenshot(path=tmp_path / f"{state.__name__}-{screen}-{scheme}.png", full_page=True)
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths == [SCREENS[screen]["width"]] * 2
        assert page.evaluate(CUT) == []
        page.evaluate(axe)
        found = page.evaluate("async () => (await axe.run()).violations")
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


def focused(page: Page) -> str:
    """Return the id or the text of what has the focus."""
    found: str = page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
    return found


def pressed_until(page: Page, wanted: str, key: str = "Tab") -> None:
    """Press a key until what is wanted has the focus, which is then visible."""
    seen = [focused(page)]
    while seen[-1] != wanted:
        page.keyboard.press(key)
        seen.append(focused(page))
        assert len(seen) < 60, f"the focus never reaches {wanted}: {seen}"
    style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid", f"{wanted} does not show that it has the focus"


def test_the_keyboard_alone_fetches_generates_cancels_and_deletes(
    browser: Browser, site: StandInSite
) -> None:
    site.change_inspection(bytes={**TOTAL, "there": 0})
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector("#fetch")
        pressed_until(page, "fetch")
        page.keyboard.press("Enter")
        page.wait_for_selector(READY)
        assert focused(page) == "generate"
        pressed_until(page, "prompt", "Shift+Tab")
        page.keyboard.type("A red door")
        site.change(hold="denoising 2")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#stage-report p:has-text('Step 2')")
        assert focused(page) == "prompt"
        pressed_until(page, "Cancel")
        page.keyboard.press("Space")
        page.wait_for_selector(READY)
        site.change(hold=None)
        pressed_until(page, "generate", "Shift+Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#history-list li")
        page.wait_for_selector(READY)
        assert focused(page) == "generate"
        for key in ("save", "reuse", "delete-picture", "delete-all"):
            pressed_until(page, key)
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#history", state="hidden")
        pressed_until(page, "tab-studio", "Shift+Tab")
        page.keyboard.press("ArrowRight")
        assert focused(page) == "tab-verdict"
        pressed_until(page, "measure")
        page.keyboard.press("Enter")
        page.wait_for_selector("#save-verdict")


def test_a_screen_reader_hears_of_quarters_and_not_of_every_step(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.fill("#prompt", "A red door")
        page.wait_for_selector(READY)
        page.evaluate(
            """() => {
                globalThis.heard = [];
                const announcer = document.getElementById('announcer');
                const hear = () => heard.push(announcer.textContent);
                new MutationObserver(hear).observe(announcer, { childList: true });
            }"""
        )
        site.change(delay=20)
        page.click(READY)
        page.wait_for_selector("#history-list li")
        heard = page.evaluate("heard")
        assert 3 <= len([sentence for sentence in heard if sentence.startswith("Step")]) <= 6
        assert heard[-1].startswith("The picture is done. Its seed is ")


def test_first_paint_takes_at_most_100_kb(browser: Browser, site: StandInSite) -> None:
    """Unpacked bytes of all but the worker, which is a stand-in here."""
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        sizes: dict[str, int] = {}
        page.on("response", lambda response: sizes.update({response.url: len(response.body())}))
        page.goto(site.address)
        page.wait_for_selector(READY)
        own = {url: size for url, size in sizes.items() if not url.endswith(("worker.js", "stand-in.json"))}
        assert sum(own.values()) <= FIRST_PAINT_BYTES, own

"""What the page keeps, gives away and deletes: in Chromium, with a stand-in for its worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.web.stand_in_site import PROMPT, READY, StandInSite, generate, picture_bytes, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_pictures_survive_a_reload_until_they_are_deleted(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        for seed in ("1", "2", "3"):
            generate(page, seed)
        shown = picture_bytes(page)
        page.reload()
        page.wait_for_selector("#history-list li >> nth=2")
        seeds = page.locator("#history-list .quiet").all_inner_texts()
        assert seeds == ["Seed 3", "Seed 2", "Seed 1"]
        page.click("#history-list button >> nth=0")
        assert picture_bytes(page) == shown
        page.click("#history-list button >> nth=1")
        page.click("#delete-picture")
        page.wait_for_selector("#history-list li >> nth=2", state="detached")
        assert page.locator("#history-list .quiet").all_inner_texts() == ["Seed 3", "Seed 1"]
        page.click("#delete-all")
        page.click("#dialog button:text-is('Keep')")
        assert page.locator("#history-list li").count() == 2
        page.click("#delete-all")
        page.click("#dialog-yes")
        page.wait_for_selector("#history", state="hidden")
        page.reload()
        page.wait_for_selector(READY)
        assert page.is_hidden("#history")


def test_the_same_seed_gives_the_same_picture_again(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        generate(page, "11", "A red door")
        first = picture_bytes(page)
        generate(page, "12", "Something else")
        assert picture_bytes(page) != first
        page.click("#history-list button >> nth=1")
        page.click("#reuse")
        assert (page.input_value("#prompt"), page.input_value("#seed")) == ("A red door", "11")
        page.click(READY)
        page.wait_for_selector("#history-list li >> nth=2")
        assert picture_bytes(page) == first
        first_asked, _, again = (each["args"] for each in visited.questions("generate"))
        assert first_asked == again


def test_what_was_typed_survives_a_reload(browser: Browser, site: StandInSite) -> None:
    typed = {"#prompt": PROMPT, "#negative-prompt": "grey", "#seed": "42", "#guidance": "4"}
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        for field, text in typed.items():
            page.fill(field, text)
        page.select_option("#steps", "4")
        page.reload()
        page.wait_for_selector(READY)
        assert {field: page.input_value(field) for field in typed} == typed
        assert page.input_value("#steps") == "4"


def test_steps_that_a_model_does_not_offer_are_not_kept(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.select_option("#steps", "4")
        site.change_inspection(model={"steps": [8, 6]})
        page.reload()
        page.wait_for_selector(READY)
        assert page.locator("#steps option").all_inner_texts() == ["8", "6"]
        assert page.input_value("#steps") == "8"


def test_a_picture_is_saved_under_a_name_that_says_what_it_is(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        generate(page, "5")
        with page.expect_download() as download:
            page.click("#save")
        assert download.value.suggested_filename == "a-wooden-boat-oil-on-canvas-5.png"
        assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_the_model_is_deleted_after_a_question(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.wait_for_selector(READY)
        page.click("#delete-model")
        assert "1,280 MB" in page.inner_text("#dialog-text")
        page.keyboard.press("Escape")
        assert visited.questions("remove") == []
        page.click("#delete-model")
        page.click("#dialog-yes")
        page.wait_for_selector("#fetch:text-is('Fetch the model (1,280 MB)')")
        assert page.is_disabled("#generate")
        assert page.is_hidden("#space")


def test_a_picture_is_copied(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site, permissions=["clipboard-read", "clipboard-write"]) as visited:
        page = visited.page
        generate(page)
        page.click("#copy")
        page.wait_for_selector("#announcer:text-is('The picture has been copied.')", state="attached")
        assert page.inner_text("#picture-note") == "The picture has been copied."
        assert page.evaluate("async () => (await navigator.clipboard.read())[0].types") == ["image/png"]


def test_a_picture_and_a_verdict_are_shared_as_files_that_the_browser_takes(
    browser: Browser, site: StandInSite
) -> None:
    """The stand-in for the browser's own dialog takes pictures and text, and no JSON, as Chrome does."""
    dialog = """
        globalThis.shared = [];
        const taken = ['image/png', 'text/plain'];
        navigator.canShare = ({ files }) => files.every(({ type }) => taken.includes(type));
        navigator.share = async ({ files }) => { shared.push([files[0].name, files[0].type]); };
    """
    with visit(browser, site) as visited:
        page = visited.page
        page.add_init_script(dialog)
        page.reload()
        generate(page, "5")
        page.click("#share")
        page.wait_for_selector("#announcer:text-is('The picture has been shared.')", state="attached")
        page.click("#tab-verdict")
        page.click("#measure:not(:disabled)")
        page.click("#share-verdict")
        (picture, verdict) = page.evaluate("shared")
        assert picture == ["a-wooden-boat-oil-on-canvas-5.png", "image/png"]
        assert verdict[1] == "text/plain"
        assert verdict[0].startswith("verdict-")


def test_without_a_way_to_share_there_is_no_button_for_it(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        page.add_init_script("navigator.canShare = undefined; delete globalThis.ClipboardItem;")
        page.reload()
        generate(page)
        assert page.is_visible("#save")
        assert page.is_hidden("#share")
        assert page.is_hidden("#copy")


def test_a_picture_that_is_not_kept_or_copied_is_told_of_where_it_can_be_seen(
    browser: Browser, site: StandInSite
) -> None:
    """Private windows may refuse both."""
    refuses = """
        IDBFactory.prototype.open = () => { throw new DOMException('No.', 'SecurityError'); };
        Clipboard.prototype.write = async () => { throw new DOMException('No.', 'NotAllowedError'); };
    """
    with visit(browser, site) as visited:
        page = visited.page
        page.add_init_script(refuses)
        page.reload()
        generate(page, "5")
        told = "This browser did not keep the picture. Save it to keep it."
        page.wait_for_selector(f"#picture-note:text-is('{told}')")
        assert page.inner_text("#announcer") == f"The picture is done. Its seed is 5. {told}"
        page.click("#copy")
        page.wait_for_selector("#picture-note:has-text('did not copy the picture. Save it instead.')")
        site.change(hold="denoising 2")
        page.click(READY)
        page.wait_for_selector(".report:has-text('Step 2 of')")
        assert page.is_hidden("#picture-note")


def test_an_earlier_picture_waits_for_what_is_being_done(browser: Browser, site: StandInSite) -> None:
    with visit(browser, site) as visited:
        page = visited.page
        generate(page, "1")
        generate(page, "2")
        site.change(hold="denoising 2")
        page.click(READY)
        page.wait_for_selector(".report:has-text('Step 2 of')")
        page.click("#history-list button >> nth=1")
        page.wait_for_selector("#picture-note:has-text('as soon as what is being done has ended')")
        current = page.locator("#history-list [aria-current] .quiet")
        assert current.all_inner_texts() == ["Seed 2"]
        page.keyboard.press("Escape")
        page.wait_for_selector(READY)
        assert page.is_hidden("#picture-note")
        assert current.all_inner_texts() == ["Seed 2"]
        assert "Seed 2," in page.inner_text("#caption")
        page.click("#history-list button >> nth=1")
        assert "Seed 1," in page.inner_text("#caption")

"""Exported pages on the real server, in Chromium, and what a test does with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msd.bundle import open_bundle
from msd.export.app.manifest import describe
from msd.export.web.export import WebSettings, export_web
from msd.export.web.manifest import Runtime
from msd.export.web.server import open_server
from tests.web.server import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MINUTES = 60_000.0
"""Milliseconds of one; SwiftShader computes slowly, and nothing here is timed."""


def export(bundle: Path, out: Path, runtime: Runtime, steps: tuple[int, ...], **settings: Any) -> Path:
    """Return the folder `out` with the page of a bundle."""
    opened = open_bundle(bundle)
    export_web(opened, out, describe(opened, steps), WebSettings(runtime=runtime, **settings))
    return out


@contextmanager
def address_of(site: Path, port: int = 0) -> Iterator[str]:
    """Yield the address of a site on the server of `msd serve`."""
    server = open_server(site, port)
    with running(server):
        yield server.address


def open_page(browser: Browser, address: str, problems: list[str]) -> Page:
    """Return a page at the address, whose errors and whose violations of its policy go to `problems`."""
    page = browser.new_page()
    page.set_default_timeout(5 * MINUTES)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.goto(address)
    return page


@contextmanager
def page_with_model(browser: Browser, site: Path) -> Iterator[Page]:
    """Yield the page of a site, opened by a new visitor, with its model fetched.

    The test fails where the page's console tells of an error.
    """
    problems: list[str] = []
    with address_of(site) as address:
        page = open_page(browser, address, problems)
        fetch_model(page)
        yield page
        page.close()
    assert problems == []


def fetch_model(page: Page) -> None:
    """Press the button that fetches the model, and wait until images can be generated."""
    page.locator("#fetch").click()
    page.locator("#generate:enabled").wait_for()


def generate(page: Page, prompt: str, seed: int, negative: str = "") -> None:
    """Type a prompt, press Generate, and wait for the picture."""
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_label("Negative prompt").fill(negative)
    page.get_by_label("Seed", exact=True).fill(str(seed))
    page.locator("#generate").click()
    page.locator("#picture:visible, #stage-report [role=alert]").first.wait_for()


def saved(page: Page, button: str, folder: Path) -> Path:
    """Press a button that saves a file, and return the file's path."""
    with page.expect_download() as download:
        page.locator(button).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path

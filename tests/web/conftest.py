"""Chromium and the page with a stand-in for its worker, for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web.browser import PATIENCE, launched
from tests.web.stand_in_site import StandInSite, stand_in_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium with WebGPU, for all tests of the module."""
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser_without_gpu() -> Iterator[Browser]:
    """Chromium without WebGPU, for all tests of the module."""
    with launched(webgpu=False) as opened:
        yield opened


@pytest.fixture
def context(browser_without_gpu: Browser) -> Iterator[BrowserContext]:
    """A new visitor, whose browser has no WebGPU."""
    with browser_without_gpu.new_context() as opened:
        opened.set_default_timeout(PATIENCE)
        yield opened


@pytest.fixture
def site(tmp_path: Path) -> Iterator[StandInSite]:
    """The page with a stand-in for its worker, whose model is there."""
    with stand_in_site(tmp_path / "site") as made:
        yield made

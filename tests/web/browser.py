"""Chromium without a window, whose WebGPU runs on SwiftShader."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATIENCE = 180_000.0
"""Milliseconds that a browser may take for what a test waits for: machines may be busy."""

NEEDS = "the page's tests need Chromium; on Debian 12: apt-get install chromium"
PROGRAMS = "chromium", "chromium-browser", "google-chrome"
COMMON = ["--headless=new", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
WEBGPU = [
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--ignore-gpu-blocklist",
    "--enable-dawn-features=disable_workgroup_init",
]
"""SwiftShader takes six times as long to compile pipelines that begin with clearing workgroup memory."""


def chromium() -> str:
    """Return the path of Chromium; skips the test where there is none."""
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.skip(NEEDS)
    return path


@contextmanager
def launched(webgpu: bool = True) -> Iterator[Browser]:
    """Yield a new Chromium, with WebGPU on SwiftShader or without any."""
    from playwright.sync_api import sync_playwright

    flags = [*COMMON, *(WEBGPU if webgpu else ["--disable-features=WebGPU"])]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=flags, timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()

"""A browser without WebGPU, in a file of its own: Playwright has one browser at a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.web.browser import PATIENCE, launched
from tests.web.node import SITE
from tests.web.server import served

SCRIPT = """async () => {
  const { findGpu, openDevice } = await import('/msd/gpu.js');
  const gpu = await findGpu();
  try { await openDevice(gpu); } catch (error) { return [gpu.problems, error.code, error.message]; }
}"""
OLD = "Object.defineProperty(Navigator.prototype, 'gpu', { get: () => undefined })"
INSECURE = "Object.defineProperty(globalThis, 'isSecureContext', { value: false })"


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("", ("lets it use no GPU", "chrome://gpu")),
        (OLD, ("has no WebGPU", "Chrome", "Edge", "Safari", "Firefox")),
        (INSECURE, ("not opened securely", "HTTPS", "localhost")),
    ],
)
def test_what_is_missing_is_a_sentence(before: str, words: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(SITE / "msd", tmp_path / "msd")
    (tmp_path / "index.html").write_text("<!doctype html>", "utf-8")
    with launched(webgpu=False) as browser, served(tmp_path) as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.add_init_script(before)
        page.goto(f"{address}/index.html")
        problems, code, message = page.evaluate(SCRIPT)
    assert (problems, code) == ([message], "no-webgpu")
    assert all(word in message for word in words), message

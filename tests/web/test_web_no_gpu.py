"""A browser without WebGPU, in a process that has no other browser open."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.web.browser import launched
from tests.web.node import SITE
from tests.web.server import served

SCRIPT = """async () => {
  const { findGpu, openDevice } = await import('/msd/gpu.js');
  const gpu = await findGpu();
  try { await openDevice(gpu); } catch (error) { return [gpu.problems, error.code, error.message]; }
}"""


def test_a_browser_without_webgpu_is_told_which_have_it(tmp_path: Path) -> None:
    shutil.copytree(SITE / "msd", tmp_path / "msd")
    (tmp_path / "index.html").write_text("<!doctype html>", "utf-8")
    with launched(webgpu=False) as browser, served(tmp_path) as address:
        page = browser.new_page()
        page.goto(f"{address}/index.html")
        (problem,), code, message = page.evaluate(SCRIPT)
    assert code == "no-webgpu" and message == problem
    assert all(name in problem for name in ("Chrome", "Edge", "Safari", "Firefox"))

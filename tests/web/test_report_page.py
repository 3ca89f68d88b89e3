"""The page of a delegation report in a real browser: what stands on top, axes, and a narrow window."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from msd.cli.report import report
from msd.measure.profiling import html as kernels
from msd.measure.regress import page as images
from tests import kernel_reports, tiny_models
from tests.test_regress_views import regression
from tests.web.browser import launched

UNLABELLED = """() => [...document.querySelectorAll('table')].flatMap((table) => {
  const titles = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent);
  return [...table.tBodies[0].rows].flatMap((row) => [...row.cells].slice(1).filter((cell, place) => {
    const said = getComputedStyle(cell, '::before').content;
    return cell.textContent && titles[place + 1] && !said.includes(titles[place + 1]);
  }).map((cell) => cell.textContent));
})"""

BROKEN_WORDS = """() => {
  const broken = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!parent.checkVisibility() || ['SCRIPT', 'STYLE'].includes(parent.tagName)) continue;
    for (const match of node.data.matchAll(/[\\p{L}\\d]{2,}/gu)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const tops = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
      if (tops.size > 1 && match[0].length < 24) broken.push(match[0]);
    }
  }
  return broken;
}"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of a file that is taken whole and of one that is not, by the rules and by the delegate."""
    files = [tiny_models.save(name, tmp_path) for name in ("whole", "five_dimensions")]
    out = tmp_path / "r.html"
    result = CliRunner().invoke(report, [*map(str, files), "--format", "html", "-o", str(out)])
    assert result.exit_code == 3, result.output
    assert f"wrote {out}" in result.stderr.splitlines()
    assert result.stdout == ""
    return out


def test_the_page_of_a_report(page: Path) -> None:
    with launched(webgpu=False) as browser:
        tab = browser.new_page(viewport={"width": 1000, "height": 900})
        tab.goto(page.as_uri())
        top, head = tab.locator(".verdict"), tab.locator("h2").first
        assert top.inner_text() == "1 of 2 files: fully delegated, with the CPU's results."
        assert top.bounding_box()["y"] < head.bounding_box()["y"]  # type: ignore[index]
        links = tab.locator("ul a")
        assert links.count() == 2
        links.nth(1).click()
        assert tab.url.endswith("#file-1")
        axes = " ".join(tab.locator(".chart").first.inner_text().split())
        assert re.fullmatch(r"[\d.]+ kB 0 operation 0 \d+ \d+", axes)
        tab.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        for width in (1000, 500, 360):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate(BROKEN_WORDS) == []
        label = "getComputedStyle(document.querySelector('td[data-title=why]'), '::before').content"
        assert "why" in tab.evaluate(label)


@pytest.mark.parametrize("name", ["kernels", "images"])
def test_the_tables_of_other_pages_keep_their_titles_in_a_narrow_window(name: str) -> None:
    """The rows stack there, without the head of the table; and no page is wider than the window."""
    text = kernels.to_html(kernel_reports.report(70)) if name == "kernels" else images.to_html(regression())
    with launched(webgpu=False) as browser:
        tab = browser.new_page()
        tab.set_content(text)
        tab.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        for width in (1280, 1000, 700, 390, 360):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(UNLABELLED) == []
        assert tab.locator("td:visible").count() > 5


def test_pages_print_dark_on_white_with_their_bars_and_without_what_only_a_screen_can_do(page: Path) -> None:
    """A printer leaves out backgrounds, such as bars and swatches, that do not ask for it."""
    measured = kernels.to_html(kernel_reports.report(70))
    with launched(webgpu=False) as browser:
        for text in (page.read_text("utf-8"), measured, images.to_html(regression())):
            tab = browser.new_page(color_scheme="dark")
            tab.set_content(text)
            hints = tab.locator(".sorts, .says")
            shown = "hints => hints.filter((hint) => hint.checkVisibility()).length"
            assert hints.evaluate_all(shown) == hints.count()
            tab.emulate_media(media="print")
            assert hints.evaluate_all(shown) == 0
            style = "getComputedStyle(document.querySelector('.bar, .swatch, .card, img')).printColorAdjust"
            assert tab.evaluate(style) == "exact"
            assert tab.evaluate("getComputedStyle(document.body).color") == "rgb(29, 37, 48)"

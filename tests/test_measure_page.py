"""What a visit to an exported page costs: the files that are loaded before anything is asked for."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.lab import measure_page
from scripts.lab.measure_page import SITE, measured, modules

LINE = re.compile(r"^ *(\w+): (\d+) kB, compressed (\d+) kB$", re.MULTILINE)


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_what_is_imported_at_once_counts_and_what_is_imported_later_does_not(tmp_path: Path) -> None:
    files = {
        "index.html": "<html>",
        "page.css": "body {}",
        "page/main.js": "import {\n  Form,\n} from './form.js';\nawait import('./later.js');\n",
        "page/form.js": "import './main.js';\n/** @typedef {import('./typed.js').T} T */\n",
        "page/later.js": "x" * 999,
        "page/typed.js": "x" * 999,
        "worker.js": "import { openModel } from './msd/index.js';\n",
        "msd/index.js": "export { openModel } from './model.js';\n",
        "msd/model.js": "export const openModel = 1;\n",
        "msd/litert.js": "x" * 999,
    }
    sizes = measured(written(tmp_path, files))
    page = ("index.html", "page.css", "page/main.js", "page/form.js")
    library = ("worker.js", "msd/index.js", "msd/model.js")
    for name, counted in (("page", page), ("library", library)):
        assert sizes[name].bytes == sum(len(files[file]) for file in counted)
        assert sizes[name].compressed == sum(len(gzip.compress(files[file].encode())) for file in counted)


def test_the_real_page_leaves_litert_and_the_second_view_for_later() -> None:
    library = {path.name for path in modules(SITE / "worker.js")}
    assert {"worker.js", "index.js", "pipeline.js", "sha256.js"} <= library
    assert "litert.js" not in library
    page = {path.name for path in modules(SITE / "page" / "main.js")}
    assert {"main.js", "form.js"} <= page
    assert not {"verdict-view.js", "initial-image-view.js", "index.js"} & page


def test_the_documentation_has_the_figures_that_the_command_prints() -> None:
    """To a twentieth, so that not every line of JavaScript changes them."""
    said = CliRunner().invoke(measure_page.main).output
    text = (Path(__file__).parents[1] / "docs/web.md").read_text("utf-8")
    lines = [(name, float(whole), float(sent)) for name, whole, sent in LINE.findall(text)]
    wanted = [(name, float(whole), float(sent)) for name, whole, sent in LINE.findall(said)]
    assert [name for name, *_ in lines] == [name for name, *_ in wanted] == ["page", "library"]
    for (_, *figures), (_, *measured_now) in zip(lines, wanted, strict=True):
        assert figures == pytest.approx(measured_now, rel=0.05)

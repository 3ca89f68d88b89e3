"""Pages that a pip user has: `msd docs`, in a wheel too, and help that names only such pages."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from msd.cli import COMMANDS, msd
from msd.cli.docs import DOCS, docs, pages

ROOT = Path(__file__).parent.parent


def test_without_a_page_all_are_listed() -> None:
    printed = CliRunner().invoke(docs, []).stdout
    assert re.search(r"^troubleshooting +Troubleshooting$", printed, re.M)
    assert len(printed.splitlines()) == len(list(DOCS.glob("*.md")))


@pytest.mark.parametrize("name", ["blockwise", "blockwise.md", "docs/blockwise.md"])
def test_a_page_is_printed(name: str) -> None:
    assert CliRunner().invoke(docs, [name]).stdout == (DOCS / "blockwise.md").read_text("utf-8")


def test_another_name_is_refused_with_the_nearest() -> None:
    result = CliRunner().invoke(docs, ["trubleshooting"])
    assert result.exit_code == 2
    assert "there is no page 'trubleshooting'; did you mean 'troubleshooting'?" in result.stderr
    assert CliRunner().invoke(docs, ["../pyproject"]).exit_code == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_only_pages_that_a_pip_user_has(name: str) -> None:
    command = msd.get_command(click.Context(msd), name)
    assert command is not None
    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert not re.search(r"docs/\S*\.md", text)
    assert {*re.findall(r"msd docs ([\w-]+) (?:explains|leads)", text)} <= {*pages()}


def test_a_wheel_has_the_pages_and_none_of_the_results(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    inside = {name.removeprefix("msd/docs/") for name in names if name.startswith("msd/docs/")}
    assert inside == {f"{name}.md" for name in pages()}
    assert {"msd/configs/phones.toml", "msd/py.typed", "msd/cli/docs.py", "graph_rewrites/__init__.py"} <= {
        *names
    }

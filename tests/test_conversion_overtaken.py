"""Converting over an earlier conversion: what is there is read once, and no other run may come between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import graph_rewrites
from msd.bundle import Manifest, open_bundle
from msd.cli.convert import convert as command
from msd.compress.encoding.recipe import find_recipe
from msd.conversion import convert as conversion
from msd.conversion import reuse
from msd.conversion.convert import Settings, convert
from msd.errors import OutputUnwritable
from tests import checkpoints

SETTINGS = Settings(graph_rewrites.load(), components=("text_encoder",))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overtaken") / "source"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


def test_the_earlier_manifest_is_read_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said to be gone is what this conversion found, not what another one left there before."""
    read, load = list[Path](), reuse.load_manifest
    monkeypatch.setattr(reuse, "load_manifest", lambda path: read.append(path) or load(path))
    out = tmp_path / "out"
    for options in ((), ("--recipe", "float16", "--force")):
        words = [str(source), "-o", str(out), "--component", "text_encoder", *options]
        assert CliRunner().invoke(command, words).exit_code == 0
    assert read == [out / "manifest.json"]


def test_a_run_that_another_overtakes_replaces_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would keep, and what it may replace, was found out before the other one wrote."""
    out, job, others = tmp_path / "out", conversion.open_job, list[Manifest]()

    def overtaken(*of: Any) -> Any:
        if not others:
            others.append(None)  # type: ignore[arg-type]
            other = replace(SETTINGS, recipe=find_recipe("float32"), force=True)
            others[0] = convert(source, out, other)
        return job(*of)

    monkeypatch.setattr(conversion, "open_job", overtaken)
    for force in (False, True):
        others.clear()
        mine = replace(SETTINGS, recipe=find_recipe("float16"), force=force)
        with pytest.raises(OutputUnwritable, match=r"another run has just written .*out; run again"):
            convert(source, out, mine)
        assert open_bundle(out, verify=True).manifest == others[0]

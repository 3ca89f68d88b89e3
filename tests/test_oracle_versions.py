"""The script that asks every release about the oracle's cases, on few of them and the installed release."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from scripts.figures import MADE, read_figures, undated
from scripts.oracle_versions import main
from tests.oracle.table import read


def test_few_cases_make_a_table_that_says_how_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output, installed = tmp_path / "table.json", version("ai-edge-litert")
    monkeypatch.setattr(
        sys, "argv", ["oracle_versions", sys.prefix, "-o", str(output), "--only", "RELU_0_TO_1 rank"]
    )
    assert main() == 0
    releases, answered = read(output)
    assert releases == [installed]
    assert len(answered) > 1
    assert {answer.verdict for _, (answer,) in answered} == {"rejected"}
    assert capsys.readouterr().out == f"{installed}: {len(answered)} of {len(answered)} agree\n"
    assert undated(tmp_path) == []
    assert read_figures(output)[MADE]["code"]["of"] == ["msd/graph/prediction"]


def test_a_name_that_no_case_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["oracle_versions", sys.prefix, "-o", str(tmp_path / "x"), "--only", "WHIRL"]
    )
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no case of tests/oracle has a name that begins with WHIRL" in capsys.readouterr().err

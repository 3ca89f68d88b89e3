"""The files of docs/results say when, how and of which code they were made; the outdated are listed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import click
import pytest

from msd.files.fingerprint import code_fingerprint
from scripts.figures import (
    MADE,
    RESULTS,
    ROOT,
    WRITTEN,
    ages,
    commands_of,
    make,
    read_figures,
    save_figures,
    undated,
)

CODE = "msd/files", "msd/errors.py"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "some.json"
    save_figures(path, {"seconds": 1.5, WRITTEN: {"commit": "0"}, MADE: {}}, *CODE)
    return path


def test_a_file_says_when_from_what_and_how_it_was_made(saved: Path) -> None:
    figures = read_figures(saved)
    made = figures.pop(MADE)
    assert figures == {"seconds": 1.5}
    assert made.keys() == {"date", "commit", "command", "machine", "versions", "code"}
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    assert head.startswith(made["commit"].removesuffix("+"))
    assert {"msd", "python", "numpy", "ai-edge-litert"} <= made["versions"].keys()
    assert made["code"] == {"of": [*CODE], "fingerprint": code_fingerprint(*CODE)}


def test_files_older_than_their_code_are_listed_with_the_cure(saved: Path) -> None:
    assert list(ages(saved.parent)) == []
    figures = read_figures(saved)
    figures[MADE] |= {"date": "2026-11-01", "code": {"of": [*CODE], "fingerprint": "another"}}
    saved.write_text(json.dumps(figures))
    (line,) = ages(saved.parent)
    assert (
        line
        == "some.json of 2026-11-01: msd/files or msd/errors.py has changed since; make results ONLY=some"
    )


def test_a_benchmark_of_msd_bench_is_listed_too(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    for code, count in ((code_fingerprint("graph_rewrites", "msd"), 0), ("another", 1)):
        path.write_text(json.dumps({"date": "2026-11-01", "code": code}))
        assert len(list(ages(tmp_path))) == count
    assert undated(tmp_path) == []


def test_files_that_say_nothing_are_counted(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps({WRITTEN: {"commit": "0", "date": "2026-11-01"}}))
    assert list(ages(tmp_path)) == [
        "1 files do not say which code they measured, only when git last wrote them"
    ]
    (tmp_path / "older.json").write_text("{}")
    assert undated(tmp_path) == ["older.json"]


def test_every_file_of_docs_results_has_a_date_and_a_commit() -> None:
    assert undated(RESULTS) == []


@pytest.mark.parametrize(
    ("figures", "commands"),
    [
        (
            {"command": "python -m scripts.measure_recipes -o a"},
            ["python -m scripts.lab.measure_recipes -o a"],
        ),
        ({"command": "python scripts/oracle.py -o a"}, ["python scripts/oracle.py -o a"]),
        (
            {"commands": ["msd bench a", "python scripts/bench_report.py"]},
            ["msd bench a", "python scripts/lab/bench_report.py"],
        ),
        ({MADE: {"command": "python -m scripts.lab.bench_report"}}, ["python -m scripts.lab.bench_report"]),
        ({}, []),
    ],
)
def test_a_file_is_made_anew_by_the_commands_in_it(figures: dict[str, object], commands: list[str]) -> None:
    assert commands_of(figures) == commands


def test_commands_run_until_one_fails(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commands = [f"echo 1 >> {mark}", "exit 7", f"echo 2 >> {mark}"]
    (tmp_path / "some.json").write_text(json.dumps({"commands": commands}))
    with pytest.raises(click.ClickException, match="exit 7 ended with 7"):
        make("some", tmp_path)
    assert mark.read_text() == "1\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [("none", "none.json does not exist; ONLY is"), ("bare", "bare.json records no command")],
)
def test_what_cannot_be_made_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bare.json").write_text("{}")
    with pytest.raises(click.ClickException, match=message):
        make(name, tmp_path)

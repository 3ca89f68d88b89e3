"""The files of docs/results say when, how and of which code they were made; the outdated are listed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import click
import pytest

from msd.files.fingerprint import code_fingerprint
from scripts.figures import (
    MADE,
    OWN,
    RESULTS,
    ROOT,
    RUNS,
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
    assert line == "some of 2026-11-01: msd/files or msd/errors.py has changed since; make results ONLY=some"


def test_a_benchmark_of_msd_bench_is_listed_too(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    for code, count in ((code_fingerprint("graph_rewrites", "msd"), 0), ("another", 1)):
        path.write_text(json.dumps({"date": "2026-11-01", "code": code}))
        assert len(list(ages(tmp_path))) == count
    assert undated(tmp_path) == []


def test_files_of_unknown_code_are_listed_with_their_dates(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps({WRITTEN: {"commit": "0", "date": "2026-11-01"}}))
    written = {
        run: {WRITTEN: {"commit": "0", "date": date}}
        for run, date in (("a", "2026-11-02"), ("b", "2026-11-03"))
    }
    (tmp_path / "study.json").write_text(json.dumps({RUNS: written}))
    assert list(ages(tmp_path)) == [
        "old.json: as last written, 2026-11-01; docs/lab.md says why it is not made anew",
        "study.json: as last written, 2026-11-02 to 2026-11-03; docs/lab.md says why it is not made anew",
    ]
    (tmp_path / "older.json").write_text("{}")
    (tmp_path / "study.json").write_text(json.dumps({RUNS: {**written, "c": {}}}))
    assert undated(tmp_path) == ["older.json", "study.json"]


def test_the_laboratory_says_why_files_are_not_made_anew() -> None:
    _, _, text = (ROOT / "docs/lab.md").read_text("utf-8").partition("\n## As last written\n")
    old = {line.partition(":")[0] for line in ages() if "as last written" in line}
    assert old == set(re.findall(r"results/([\w-]+\.json)", text))


def test_runs_of_a_study_are_saved_and_read_apart(tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    assert read_figures(study / "first") == {}
    for run, seconds in (("first", 1.0), ("second", 2.0), ("first", 3.0)):
        save_figures(study / run, {"seconds": seconds}, *CODE)
    assert {run: each["seconds"] for run, each in read_figures(study)[RUNS].items()} == {
        "first": 3.0,
        "second": 2.0,
    }
    assert read_figures(study / "second")[MADE]["code"]["fingerprint"] == code_fingerprint(*CODE)
    assert read_figures(study / "third") == {}
    assert list(ages(tmp_path)) == []


def test_one_run_of_a_study_is_listed_and_made_anew(tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    for run in ("first", "second"):
        save_figures(study / run, {}, *CODE)
    figures = read_figures(study)
    figures[RUNS]["second"][MADE] |= {
        "date": "2026-11-01",
        "code": {"of": ["msd/files"], "fingerprint": "another"},
    }
    study.write_text(json.dumps(figures))
    assert list(ages(tmp_path)) == [
        "study/second of 2026-11-01: msd/files has changed since; make results ONLY=study/second"
    ]
    figures[RUNS]["second"][MADE]["command"] = f"echo -o old/study-second.json > {tmp_path}/said"
    study.write_text(json.dumps(figures))
    make("study/second", tmp_path)
    assert (tmp_path / "said").read_text() == f"-o {study}/second\n"
    with pytest.raises(click.ClickException, match="has no run third; it has first, second"):
        make("study/third", tmp_path)


def test_what_a_command_of_msd_wrote_is_stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.json"
    monkeypatch.setitem(OWN, "some", CODE)
    commands = [f"echo '{{\"format\": 1}}' > {path}", "true"]
    path.write_text(json.dumps({"commands": commands}))
    make("some", tmp_path)
    figures = read_figures(path)
    assert figures["format"] == 1
    assert figures[MADE]["command"] == " && ".join(commands)
    assert figures[MADE]["code"] == {"of": [*CODE], "fingerprint": code_fingerprint(*CODE)}
    assert commands_of(figures) == [" && ".join(commands)]


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

"""`msd compare` from its arguments to the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.cli import compare as cli
from msd.cli import msd
from msd.errors import BadModelFile
from msd.files import schema
from msd.models.demo import CHECKPOINT
from msd.train.comparison import compare as comparison
from msd.train.comparison.result import Column, ComparisonResult
from tests.json_schema import violations

FEW = "--steps-a", 3, "--steps-b", 2


def run(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(msd, ["compare", *map(str, arguments)], prog_name="msd", terminal_width=100)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("# mine\na fox\n\nan owl [b]not markup[/b]\na hen\n")
    return path


def test_help(golden: Callable[[str, str], None]) -> None:
    result = run("--help")
    assert result.exit_code == 0
    golden("compare-help.txt", result.output)


def test_the_table_has_the_baseline_and_the_evaluations(bundle_folder: Path, prompts: Path) -> None:
    result = run(bundle_folder, bundle_folder, "--prompts", prompts, *FEW, "--guidance-b", 1)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    lines = [line.split("│") for line in result.stderr.splitlines() if line.startswith("│")]
    rows = {cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for cells in lines}
    for label in ("A, 3 steps", "A, 2 steps", "B, 2 steps"):
        assert label in result.stderr
    assert rows["evaluations of the U-Net"] == ["6 = 3 × 2", "4 = 2 × 2", "2 = 2 × 1"]
    assert rows["guidance"] == ["7.5", "7.5", "1"]
    assert rows["PSNR of images"][0] == ""
    assert all(cell.endswith(" dB") for cell in rows["PSNR of images"][1:])
    assert "attributes right" not in rows
    assert "CLIP score" not in rows
    assert "3 prompts, seeds from 0; distances from A at 3 steps are medians" in result.stderr


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (("--batch", 2), "--batch does nothing where both models are converted"),
        (("--force",), "--force does nothing without --output"),
    ],
)
def test_an_option_that_does_nothing_is_wrong_usage(
    option: tuple[str | int, ...], why: str, bundle_folder: Path, prompts: Path
) -> None:
    result = run(bundle_folder, bundle_folder, "--prompts", prompts, *option)
    assert (result.exit_code, why in result.stderr) == (2, True), result.stderr


def test_a_backend_does_nothing_for_two_checkpoints(prompts: Path) -> None:
    result = run(CHECKPOINT, CHECKPOINT, "--prompts", prompts, "--backend", "cpu")
    assert result.exit_code == 2
    assert "--backend does nothing where both models are checkpoints" in result.stderr


def test_the_json_is_the_result(bundle_folder: Path, prompts: Path) -> None:
    options = ("--prompts", prompts, *FEW, "--limit", 2, "--seed", 7, "--json")
    result = run(bundle_folder, bundle_folder, *options)
    assert result.exit_code == 0, result.stderr
    parsed = json.loads(result.stdout)
    assert [*violations(parsed, schema.document(ComparisonResult))] == []
    assert (parsed["prompts"], parsed["seed"], len(parsed["columns"])) == (2, 7, 3)
    images = [(each["prompt"], each["seed"]) for each in parsed["columns"][2]["images"]]
    assert images == [("a fox", 7), ("an owl [b]not markup[/b]", 8)]


def test_equal_models_say_so_and_pass_any_gate(bundle_folder: Path, prompts: Path) -> None:
    result = run(bundle_folder, bundle_folder, "--prompts", prompts, "--steps-a", 2, "--steps-b", 2,
                 "--at-least", 1000)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "PSNR of images" in line]
    assert [cell.strip() for cell in line.split("│")[2:-1]] == ["", "equal"]


def test_a_broken_gate_is_exit_code_3_after_everything_is_written(
    bundle_folder: Path, prompts: Path, tmp_path: Path
) -> None:
    options = ("--prompts", prompts, *FEW, "--at-least", 900, "--json", "-o", tmp_path / "report")
    result = run(bundle_folder, bundle_folder, *options)
    assert result.exit_code == 3
    assert "the median PSNR of B, 2 steps is " in result.stderr
    assert "dB, below 900 dB" in result.stderr
    assert json.loads(result.stdout) == json.loads((tmp_path / "report" / "result.json").read_text())
    assert json.loads(result.stdout)["at_least_db"] == 900
    assert (tmp_path / "report" / "sheet.png").is_file()


def test_an_existing_report_is_refused_before_anything_runs(
    bundle_folder: Path, prompts: Path, tmp_path: Path
) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "result.json").write_text("mine")
    options = ("--prompts", prompts, *FEW, "-o", tmp_path / "report")
    result = run(bundle_folder, bundle_folder, *options)
    assert result.exit_code == 1
    assert "--force replaces it" in result.stderr
    assert "A, 3 steps" not in result.stderr
    assert run(bundle_folder, bundle_folder, *options, "--force").exit_code == 0
    assert (tmp_path / "report" / "result.json").read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--scheduler-b", "none"), 2, "no scheduler is called 'none'; there are ddim"),
        (("--steps-a", 5000), 1, "5000 steps are impossible"),
        (("--limit", 0), 2, "--limit"),
        (("--at-least", 0), 2, "0.0 is not in the range 0<x<=1000"),
        (("--clip", "nowhere"), 1, "cannot be read as a CLIPModel"),
    ],
)
def test_refusals(
    bundle_folder: Path, prompts: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    options = ("--prompts", prompts, "--steps-b", 1, *arguments)
    result = run(bundle_folder, bundle_folder, *options)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_without_prompts_and_a_folder_without_a_model_are_refused(
    bundle_folder: Path, prompts: Path, tmp_path: Path
) -> None:
    assert "is no model" in run(bundle_folder, tmp_path, "--prompts", prompts).stderr
    prompts.write_text("# none\n")
    result = run(bundle_folder, bundle_folder, "--prompts", prompts)
    assert (result.exit_code, "has no prompt" in result.stderr) == (1, True)


def interrupted_at(letter: str, done: int, problem: BaseException) -> Callable[[], Any]:
    """Return a progress bar that raises `problem` in a column, once that many of its steps are done."""

    @contextmanager
    def progress() -> Iterator[Callable[[str, int, int], None]]:
        def on_column(label: str, now: int, total: int) -> None:
            if label.startswith(letter) and now >= done:
                raise problem

        yield on_column

    return progress


@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt(), 130), (BadModelFile("a bad file"), 1)])
def test_what_ends_it_keeps_the_images_that_were_made(
    problem: BaseException,
    code: int,
    bundle_folder: Path,
    prompts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = (bundle_folder, bundle_folder, "--prompts", prompts, *FEW, "-o", tmp_path / "report")
    monkeypatch.setattr(cli, "column_progress", interrupted_at("B", 5, problem))
    ended = run(*options, "--json", "--at-least", 900)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert "2 prompts, seeds from 0; distances from A at 3 steps" in ended.stderr
    kept = json.loads((tmp_path / "report" / "stopped" / "result.json").read_text())
    assert [*violations(kept, schema.document(ComparisonResult))] == []
    assert sorted(path.name for path in (tmp_path / "report").rglob("*")) == [
        *("result.json", "sheet.png", "stopped")
    ]
    monkeypatch.undo()
    whole = run(*options, "--limit", 2, "--json", "--force")
    assert whole.exit_code == 0
    assert [path.name for path in (tmp_path / "report").iterdir() if path.is_dir()] == []
    for part, column in zip(kept["columns"], json.loads(whole.stdout)["columns"], strict=True):
        assert (part["images"], part["distance"]) == (column["images"], column["distance"])


def test_ctrl_c_while_images_are_measured_loses_none(
    bundle_folder: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measuring takes seconds: it first imports scikit-image."""
    measure, stops = comparison.measure_column, [KeyboardInterrupt()]

    def measured(*of: Any) -> Column:
        if stops:
            raise stops.pop()
        return measure(*of)

    monkeypatch.setattr(comparison, "measure_column", measured)
    ended = run(bundle_folder, bundle_folder, "--prompts", prompts, *FEW, "-o", tmp_path / "report")
    assert (ended.exit_code, "stopped: the table has the images" in ended.stderr) == (130, True)
    kept = json.loads((tmp_path / "report" / "stopped" / "result.json").read_text())
    assert [len(column["images"]) for column in kept["columns"]] == [3, 3, 3]


def test_an_end_in_the_first_model_tells_of_it_alone(
    bundle_folder: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (bundle_folder, bundle_folder, "--prompts", prompts, *FEW)
    monkeypatch.setattr(cli, "column_progress", interrupted_at("A", 4, KeyboardInterrupt()))
    ended = run(*options)
    assert ended.exit_code == 130
    assert "1 prompt, seeds from 0" in ended.stderr
    assert f"A: {bundle_folder}" in ended.stderr
    assert "B: " not in ended.stderr
    monkeypatch.setattr(cli, "column_progress", interrupted_at("A", 1, KeyboardInterrupt()))
    assert "stopped" not in run(*options).stderr


def test_a_report_that_cannot_be_written_is_still_printed(
    bundle_folder: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "report"

    @contextmanager
    def appears() -> Iterator[None]:
        yield
        output.mkdir()
        (output / "mine").touch()

    monkeypatch.setattr(cli, "column_progress", appears)
    ended = run(bundle_folder, bundle_folder, "--prompts", prompts, *FEW, "--json", "-o", output)
    assert (ended.exit_code, "--force replaces it" in ended.stderr) == (1, True)
    assert json.loads(ended.stdout)["prompts"] == 3
    assert [path.name for path in output.iterdir()] == ["mine"]

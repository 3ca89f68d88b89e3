"""`msd sensitivity` on the demo's text encoder: what was expected of the recipe is what it gives."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli import sensitivity as cli
from msd.cli.convert import convert
from msd.cli.sensitivity import sensitivity
from msd.compress.calibration.generated_inputs import Calibration, record_inputs
from msd.compress.encoding.recipe import read_recipe
from msd.measure.blockwise import sensitivity as study
from msd.measure.blockwise.sensitivity import Outcome
from msd.models.demo.captions import captions
from msd.run.runtime.request import Request

ONLY = ("--component", "text_encoder")
PRUNED = """
delegate = "litert-gpu"
[[line]]
store = "int8"
[prune]
criterion = "activation"
components = ["text_encoder"]
[[prune.unit]]
name = "*.fc1"
keep = 0.5
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(sensitivity, [*map(str, arguments)])


@pytest.fixture(scope="module")
def inputs(demo_float: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of captions' tokens, as the text encoder takes them."""
    requests = [Request(caption, steps=1, guidance=1) for caption in captions("train", 6, 0)]
    folder = tmp_path_factory.mktemp("inputs")
    record_inputs(open_bundle(demo_float), requests, folder)
    return folder / "text_encoder"


def test_a_recipe_for_an_error(inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "mixed.toml"
    options = ("--calibration", inputs, "--candidate", "gpu-w8", "--candidate", "gpu-w4", "-o", out)
    result = call(*ONLY, *options, "--target-db", 28, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    expected, given = (found[key]["text_encoder"] for key in ("expected", "found"))
    assert given["snr_db"] >= 28
    assert given["snr_db"] == pytest.approx(expected["snr_db"], abs=1)
    assert given["bytes"] == pytest.approx(expected["bytes"], rel=0.02)
    whole = {name: parts["text_encoder"] for name, parts in found["whole"].items()}
    assert whole["gpu-w4"]["snr_db"] < 28 < whole["gpu-w8"]["snr_db"]
    assert whole["gpu-w4"]["bytes"] < given["bytes"] < whole["gpu-w8"]["bytes"]
    assert len(read_recipe(out).lines) >= 2
    assert read_recipe(out).delegate == "litert-gpu"
    again = call(*ONLY, *options, "--target-db", 28)
    assert again.exit_code == 1
    assert "--force replaces it" in again.stderr


def test_a_recipe_that_prunes_some_blocks(inputs: Path, tmp_path: Path) -> None:
    """Predicted is what is found, and msd convert makes the same file with the same calibration."""
    (tmp_path / "half.toml").write_text(PRUNED)
    out = tmp_path / "mixed.toml"
    candidates = ("--candidate", "gpu-w8", "--candidate", tmp_path / "half.toml")
    result = call(*ONLY, *candidates, "--calibration", inputs, "--target-size", "28%", "-o", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    expected, given = (found[key]["text_encoder"] for key in ("expected", "found"))
    assert given["snr_db"] == pytest.approx(expected["snr_db"], abs=1)
    assert given["bytes"] == pytest.approx(expected["bytes"], rel=0.01)
    chosen = [name for name, form in found["chosen"]["text_encoder"].items() if form == "half"]
    table = tomllib.loads(out.read_text("utf-8"))["prune"]
    units = [unit["name"] for unit in table["unit"]]
    assert 0 < len(units) < 3
    assert all(any(unit.startswith(f"{block}.") for block in chosen) for unit in units)
    assert (table["criterion"], table["components"]) == ("activation", ["text_encoder"])
    assert f"# Convert with --calibration {inputs}" in out.read_text("utf-8")
    made = tmp_path / "made"
    options = [*ONLY, "--recipe", out, "--calibration", inputs, "-o", made]
    result = CliRunner().invoke(convert, [*map(str, options)])
    assert result.exit_code == 0, result.output
    bundle = open_bundle(made)
    assert bundle.component("text_encoder").bytes == given["bytes"]
    pruning = bundle.manifest.ledger["text_encoder"].pruning
    assert pruning is not None
    assert [unit.unit for unit in pruning.units] == units
    assert all(unit.refitted_error < unit.output_error for unit in pruning.units)


def test_a_recipe_for_a_size(inputs: Path, tmp_path: Path) -> None:
    only = (*ONLY, "--calibration", inputs, "--candidate", "gpu-w8", "-o", tmp_path / "mixed.toml")
    result = call(*only, "--target-size", "40%")
    assert result.exit_code == 0, result.output
    assert re.search(r"^mixed +━+ 1/1 .* converted and run *$", result.stderr, re.MULTILINE)
    assert "text_encoder: 0.8" not in result.stdout
    assert "text_encoder: 1." in result.stdout
    assert "40% of float32" in result.stdout


def test_a_target_that_is_missed_is_exit_code_3(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "convert_and_measure", lambda *given: {"text_encoder": Outcome(10, 1.0)})
    out = tmp_path / "mixed.toml"
    result = call(*ONLY, "--calibration", inputs, "--candidate", "gpu-w8", "-o", out, "--target-db", 20)
    assert (result.exit_code, out.is_file()) == (3, True)
    said = "the target of 20 dB is missed: text_encoder has 1.0 dB; the recipe is the last attempt's"
    assert said in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give one of --target-size and --target-db"),
        (("--target-size", "60%", "--target-db", "40"), "give one of"),
        (("--target-size", "many"), "many is not a size; write 600MB or 60%"),
        (("--target-size", "0%"), "0% is not a size"),
        (("--target-size", "9" * 400 + "%"), "9% is not a size"),
    ],
)
def test_wrong_usage_is_refused(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = call("--candidate", "gpu-w8", "-o", tmp_path / "x.toml", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_text_encoder_in_two_files_is_refused_before_anything_is_converted(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(study, "convert")
    words = *ONLY, "--calibration", inputs, "-o", tmp_path / "mixed.toml", "--target-db", 20
    result = call(*words, "--candidate", "gpu-w8", "--candidate", "tflite-gpu-w8")
    assert result.exit_code == 1
    said = "tflite-gpu-w8 writes the text encoder as two files, and blocks are compared in one; name other"
    assert said in result.stderr


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden(
        "sensitivity-help.txt",
        CliRunner().invoke(sensitivity, ["--help"], prog_name="msd sensitivity").output,
    )


@pytest.mark.parametrize(
    ("ended", "blocks", "chosen"),
    [
        (("gpu-w8 text_encoder", "one block compressed", 0), 0, False),
        (("gpu-w8 text_encoder", "one block compressed", 3), 3, False),
        (("gpu-w4 text_encoder", "blocks alone", 1), 4, False),
        (("mixed", "converting and running", 0), 4, True),
    ],
)
def test_ctrl_c_loses_no_block(
    ended: tuple[str, str, int],
    blocks: int,
    chosen: bool,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def progress() -> Iterator[Callable[[str, str, int, int], None]]:
        def on_progress(component: str, what: str, done: int, total: int) -> None:
            if (component, what, done) == ended:
                raise KeyboardInterrupt

        yield on_progress

    monkeypatch.setattr(cli, "component_progress", progress)
    out = tmp_path / "mixed.toml"
    options = ("--calibration", inputs, "--candidate", "gpu-w8", "--candidate", "gpu-w4", "-o", out)
    result = call(*ONLY, *options, "--target-db", 28, "--json")
    assert (result.exit_code, result.stdout, out.exists()) == (130, "", False)
    table, _, rest = result.stderr.partition("stopped: ")
    assert len(re.findall(r"^│ [a-z]", table.replace("│ all", ""), re.MULTILINE)) == blocks
    assert ("chosen" in table, "nothing is written" in rest) == (chosen, blocks > 0)


def test_a_size_that_no_choice_has_is_refused_before_anything_is_measured(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least is that of the candidates' files, block by block, and a size of so many bytes is taken."""

    def measured(*given: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(study, "_errors", measured)
    monkeypatch.setattr(Calibration, "runs", measured)
    options = (*ONLY, "--candidate", "gpu-w8", "--candidate", "gpu-w4", "-o", tmp_path / "mixed.toml")
    small = call(*options, "--target-size", "1kB").stderr
    said = re.search(
        r"error: these candidates give .* of ([\d,]+) to [\d,]+ bytes .*; 1,000 is too small", small
    )
    assert said is not None, small
    least = int(said[1].replace(",", ""))
    short = call(*options, "--target-size", f"{least - 1}B")
    assert (short.exit_code, f"{least - 1:,} is too small" in short.stderr) == (1, True)
    assert isinstance(call(*options, "--target-size", f"{least}B").exception, AssertionError)

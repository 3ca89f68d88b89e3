"""Pruned conversions of the demo checkpoint: what changes, what does not, what a calibration is good for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import graph_rewrites
from msd.bundle import open_bundle
from msd.cli.convert import convert as command
from msd.compress.calibration.generated_inputs import Calibration, record_inputs
from msd.compress.encoding.recipe import find_recipe
from msd.compress.pruning.settings import Budget, Pruning, UnitShare
from msd.conversion.convert import Settings, convert
from msd.errors import BadCalibration, OutputExists
from msd.files.schema import to_json
from msd.graph import tflite
from msd.graph.ir import Tensor
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.request import Request
from tests import checkpoints

WIDE = ("up_blocks.0.resnets.0", "up_blocks.0.resnets.1", "up_blocks.0.resnets.2",
        "up_blocks.1.resnets.0", "up_blocks.1.resnets.1")  # fmt: skip
Inputs = tuple[Path, list[Mapping[str, Array]]]
FLOAT = Settings(graph_rewrites.load(), find_recipe("float32"), ("unet",))


@pytest.fixture(scope="module")
def inputs(demo_float: Path, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """A folder of inputs to calibrate on, and others of the U-Net to measure on."""
    folder = tmp_path_factory.mktemp("inputs")
    both = [("calibration", captions("train", 12, 2)), ("measured", captions("held-back", 2, 1))]
    for name, prompts in both:
        requests = [Request(p, seed=i, steps=2, guidance=1) for i, p in enumerate(prompts)]
        drawn = record_inputs(open_bundle(demo_float), requests, folder / name)
    return folder / "calibration", list(drawn["unet"])


def outputs(path: Path, inputs: Sequence[Mapping[str, Array]]) -> list[Array]:
    with Interpreter(path, float_weights=True) as network:
        return [network.run(each)["noise"] for each in inputs]


def decibels(plain: Path, pruned: Path, inputs: Sequence[Mapping[str, Array]]) -> float:
    wanted, found = outputs(plain / "unet.tflite", inputs), outputs(pruned / "unet.tflite", inputs)
    return float(np.median([psnr(a, b) for a, b in zip(wanted, found, strict=True)]))


def run(*args: object) -> Result:
    return CliRunner().invoke(command, list(map(str, args)))


def test_the_recipe_halves_the_five_widest_blocks(demo_int8: Path, tmp_path: Path) -> None:
    """And nothing else: the other components' bytes are as without it, and the U-Net's other constants."""
    report = tmp_path / "report.json"
    result = run("-o", tmp_path / "pruned", "--recipe", "gpu-w8-pruned", "--prune-report", report)
    assert result.exit_code == 0, result.output
    assert "0.7 M of 8.1 M parameters pruned, 8.5%" in result.output
    done = json.loads(report.read_text("utf-8"))
    assert [(u["unit"], u["kept"], u["width"]) for u in done["unet"]["units"]] == [
        (f"{name}.conv1", 48, 96) for name in WIDE
    ]
    assert done["unet"]["removed"] == sum(u["parameters"] for u in done["unet"]["units"]) == 684480
    pruned, whole = open_bundle(tmp_path / "pruned"), open_bundle(demo_int8)
    for name in ("text_encoder", "vae_decoder"):
        assert pruned.component(name).sha256 == whole.component(name).sha256
    assert to_json(pruned.manifest.ledger["unet"].pruning) == done["unet"]
    assert pruned.component("unet").inputs == whole.component("unet").inputs
    assert_only_changed(pruned.path("unet"), whole.path("unet"))


def kernels(path: Path) -> dict[str, Tensor]:
    every = {t.name: t for t in tflite.read(path).main.tensors() if t.data is not None}
    return {name: t for name, t in every.items() if name.endswith("/kernel")}


def assert_only_changed(pruned: Path, whole: Path) -> None:
    """Filters that are not of the wide blocks' are the same, and every filter of them is narrower."""
    ours, theirs = kernels(pruned), kernels(whole)
    mine = {name for name in theirs if name.startswith(WIDE)}
    assert len(mine) >= 10
    for name in theirs.keys() - mine:
        assert np.array_equal(ours[name].weights.load(), theirs[name].weights.load()), name
    narrower = [name for name in mine if name not in ours or ours[name].size < theirs[name].size]
    assert len([name for name in narrower if "conv1" in name or "conv2" in name]) == 10


def test_refitting_helps(demo_float: Path, inputs: Inputs, tmp_path: Path) -> None:
    """Two thirds of three blocks out: on other pictures than those calibrated on, it is worth decibels."""
    folder, measured = inputs
    lines, found = (UnitShare("up_blocks.2.resnets.*.conv1", 1 / 3),), {}
    for refit, calibration in [(False, None), (None, Calibration(folder))]:
        pruning, out = Pruning(shares=lines, refit=refit), tmp_path / str(refit)
        manifest = convert(CHECKPOINT, out, replace(FLOAT, pruning=pruning, calibration=calibration))
        found[refit] = decibels(demo_float, out, measured)
    pruned = manifest.ledger["unet"].pruning
    assert pruned is not None
    units = pruned.units
    assert len(units) == 3
    for unit in units:
        assert unit.refitted_error < 0.7 * unit.output_error
    assert found[None] > found[False] + 1, found


def test_without_a_refit_errors_are_told_and_weights_stay(inputs: Inputs, tmp_path: Path) -> None:
    """With a calibration the file is the one that there is without."""
    pruning = Pruning(shares=(UnitShare("*.fc1", 0.5),), refit=False, components=("text_encoder",))
    only = replace(FLOAT, components=("text_encoder",), pruning=pruning)
    told = convert(CHECKPOINT, tmp_path / "told", replace(only, calibration=Calibration(inputs[0])))
    pruned = told.ledger["text_encoder"].pruning
    assert pruned is not None
    units = pruned.units
    assert len(units) == 3
    for unit in units:
        assert 0 < unit.output_error < 1
        assert unit.refitted_error is None
    untold = convert(CHECKPOINT, tmp_path / "untold", only)
    assert told.components["text_encoder"].sha256 == untold.components["text_encoder"].sha256


@pytest.mark.parametrize("criterion", ["activation", "reconstruction"])
def test_criteria_that_look_at_what_passes(
    criterion: str, demo_float: Path, inputs: Inputs, tmp_path: Path
) -> None:
    folder, measured = inputs
    pruning = Pruning(shares=(UnitShare("up_blocks.1.resnets.1.conv1", 2 / 3),), criterion=criterion)
    convert(CHECKPOINT, tmp_path / "out", replace(FLOAT, pruning=pruning, calibration=Calibration(folder)))
    assert decibels(demo_float, tmp_path / "out", measured) > 40


def test_pruning_decides_what_a_file_is(tmp_path: Path) -> None:
    """The same again is done already; another budget, or none, would overwrite it."""
    once = replace(FLOAT, pruning=Pruning(Budget(share=3)))
    first = convert(CHECKPOINT, tmp_path / "out", once)
    assert convert(CHECKPOINT, tmp_path / "out", once) == first
    for other in (Pruning(Budget(share=4)), None):
        with pytest.raises(OutputExists, match="made by another msd, or with other"):
            convert(CHECKPOINT, tmp_path / "out", replace(FLOAT, pruning=other))


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--prune", "99%"], 1, "the budget of 99 % is impossible: at most"),
        (["--prune", "1MB"], 1, "the budget of 1 MB is impossible: the weights of unet take at least"),
        (["--prune", "much"], 2, "'much' is not a budget; give a share as 15% or a size as 600MB"),
        (
            ["--recipe", "float16", "--calibration", "x.txt"],
            1,
            "a calibration is for pruning and for rounding: give --prune, or a recipe",
        ),
        (["--prune", "5%", "--calibration", "nowhere.txt"], 1, "nowhere.txt cannot be read"),
    ],
)
def test_refusals(options: list[str], code: int, words: str, tmp_path: Path) -> None:
    """One sentence, and nothing is written."""
    result = run("-o", tmp_path / "out", *options)
    assert result.exit_code == code
    assert words in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prune", "600MB"], "warning: nothing of unet was pruned: it fits the budget of 600 MB whole"),
        ([], "report.json is an empty object: nothing was to be pruned"),
    ],
)
def test_that_nothing_is_pruned_is_said(options: list[str], words: str, tmp_path: Path) -> None:
    tiny = tmp_path / "tiny"
    checkpoints.write(tiny, checkpoints.TINY)
    result = run(tiny, "-o", tmp_path / "out", *options, "--prune-report", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    assert words in " ".join(result.stderr.split())
    assert "pruned by" not in result.stdout


def test_a_recipe_that_would_break_a_group(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        '[[line]]\nstore = "int8"\n[[prune.unit]]\nname = "mid_block.resnets.0.conv1"\nkeep = 0.4\n'
    )
    result = run("-o", tmp_path / "out", "--recipe", recipe)
    assert result.exit_code == 1
    words = "mid_block.resnets.0.conv1 has 96 channels in 32 groups, of which 0.4 cannot stay: that breaks a"
    assert words in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--recipe", "gpu-w8-pruned", "--component", "unet"),
            "up_blocks.1.resnets.0.conv1 has 12 channels in 2 groups, of which 0.5 cannot stay: that breaks a"
            " group; the nearest are 0.3333 or 0.6667",
        ),
        (("--prune", "90%", "--component", "unet"), "the budget of 90 % is impossible: at most "),
        (("--prune", "1kB", "--component", "unet"), "the budget of 0.001 MB is impossible: the weights of "),
        (
            ("--prune", "90%", "--calibration", "random-words"),
            "the budget of 90 % is impossible: at most ",
        ),
    ],
)
def test_what_cannot_be_pruned_is_refused_by_a_dry_run_too(
    options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    """In the same words, before anything is observed, of a network whose structure nobody knew."""
    groups = {"block_out_channels": [12, 24], "norm_num_groups": 2}
    checkpoints.write(tmp_path / "odd", checkpoints.vary(checkpoints.TINY, unet=groups))
    said = []
    for more in (("--dry-run",), ()):
        result = run(tmp_path / "odd", "-o", tmp_path / "out", *options, *more)
        assert result.exit_code == 1, result.output
        assert words in " ".join(result.stderr.split())
        said.append(result.stderr.splitlines()[-1])
    assert said[0] == said[1]
    assert not (tmp_path / "out").exists()


def test_a_report_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("mine")
    result = run("-o", tmp_path / "out", "--prune", "3%", "--prune-report", tmp_path / "report.json")
    assert result.exit_code == 1
    assert "report.json exists; --force replaces it" in " ".join(result.output.split())


def test_a_folder_without_inputs(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    settings = replace(FLOAT, pruning=Pruning(Budget(share=3)), calibration=Calibration(tmp_path / "empty"))
    with pytest.raises(BadCalibration, match=r"has no \.npz files"):
        convert(CHECKPOINT, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()

"""`msd distill` from its arguments to the exit code, and what msd-convert makes of its result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from msd.bundle import open_bundle
from msd.cli import msd
from tests.checkpoints import TINY, vary, write

SMALL = vary(TINY, unet={"sample_size": [4, 6]})
SHORT = "--trajectories", 2, "--updates", 2, "--batch", 2, "--sample-every", 0


def run(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(msd, [*map(str, arguments)], prog_name="msd", terminal_width=100)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("red\nreed\n")
    return path


def test_help(golden: Callable[[str, str], None]) -> None:
    result = run("distill", "--help")
    assert result.exit_code == 0
    golden("distill-help.txt", result.output)


def test_a_student_converts_with_its_own_steps_and_guidance(tmp_path: Path, prompts: Path) -> None:
    write(tmp_path / "teacher", SMALL)
    options = ("--prompts", prompts, "--guidance", 3, "--steps", 2, *SHORT, "-o", tmp_path / "student")
    result = run("distill", tmp_path / "teacher", *options)
    assert result.exit_code == 0, result.stderr
    assert f"{tmp_path / 'student'}: 2 steps, guidance 1" in result.stdout
    assert "2 trajectories of 32 steps, 1 MB in " in result.stderr
    assert "steps-2: 2 updates of 2 points, predicts v\n" in result.stderr
    assert "need a student that predicts v" in result.stderr
    again = run("distill", tmp_path / "teacher", *options[:-1], tmp_path / "other", "--json")
    assert again.exit_code == 0
    facts = json.loads(again.stdout)
    assert facts["images"] == {"steps": 2, "guidance": 1.0}
    assert facts["stages"] == ["guidance", "steps-16", "steps-8", "steps-4", "steps-2"]
    converted = run("convert", tmp_path / "student", "-o", tmp_path / "converted")
    assert converted.exit_code == 0, converted.stderr
    images = open_bundle(tmp_path / "converted").manifest.images
    assert (images.steps, images.guidance) == (2, 1.0)
    other = run("convert", tmp_path / "student", "-o", tmp_path / "dpm", "--scheduler", "dpm++")
    assert other.exit_code == 0, other.stderr
    assert open_bundle(tmp_path / "dpm").manifest.images.steps == 20


@pytest.mark.parametrize(
    ("recipe", "rate", "hints"), [("gpu-w4", 3e-5, 1), ("gpu-w4", 1e-5, 0), ("gpu-w8", 3e-5, 0)]
)
def test_a_rate_that_is_too_large_for_int4_is_named(
    recipe: str, rate: float, hints: int, tmp_path: Path, prompts: Path
) -> None:
    write(tmp_path / "teacher", SMALL)
    options = ("--prompts", prompts, "--recover", recipe, *SHORT, "--rate", rate, "-o", tmp_path / "student")
    result = run("distill", tmp_path / "teacher", *options)
    assert result.exit_code == 0, result.stderr
    assert f"weights rounded to int{recipe[-1]}" in result.stderr
    assert result.stderr.count(f"a rate of {rate:g} lets int4 weights swing between two integers") == hints


def test_a_run_that_is_repeated_says_what_is_done(tmp_path: Path, prompts: Path) -> None:
    write(tmp_path / "teacher", SMALL)
    options = ("--prompts", prompts, "--guidance", "2..5", *SHORT, "--state", tmp_path / "state")
    assert run("distill", tmp_path / "teacher", *options, "-o", tmp_path / "one").exit_code == 0
    again = run("distill", tmp_path / "teacher", *options, "-o", tmp_path / "two")
    assert "guidance: 2 updates of 2 points, predicts noise, done already" in again.stderr


@pytest.mark.parametrize(
    ("guidance", "steps", "images"),
    [("3", [], (4, 1.0)), ("2..9", ["--steps", 6], (6, 7.5))],
    ids=["one scale", "a range"],
)
def test_a_latent_consistency_model_converts_with_its_scheduler(
    tmp_path: Path, prompts: Path, guidance: str, steps: list[str | int], images: tuple[int, float]
) -> None:
    write(tmp_path / "teacher", SMALL)
    options = ("--prompts", prompts, "--lcm", "--guidance", guidance, *steps, *SHORT)
    result = run("distill", tmp_path / "teacher", *options, "-o", tmp_path / "student")
    assert result.exit_code == 0, result.stderr
    converted = run("convert", tmp_path / "student", "-o", tmp_path / "converted")
    assert converted.exit_code == 0, converted.stderr
    bundle = open_bundle(tmp_path / "converted")
    assert (bundle.manifest.images.steps, bundle.manifest.images.guidance) == images
    assert bundle.manifest.scheduler["_class_name"] == "LCMScheduler"
    inputs = {spec.name for spec in bundle.component("unet").inputs}
    assert ("guidance_embedding" in inputs) == (".." in guidance)


def test_a_lora_converts_into_its_teacher(tmp_path: Path, prompts: Path) -> None:
    write(tmp_path / "teacher", SMALL)
    options = ("--prompts", prompts, "--lcm", "--guidance", 3, "--lora", 2, "--rate", 0.01, *SHORT)
    result = run("distill", tmp_path / "teacher", *options, "-o", tmp_path / "lora")
    assert result.exit_code == 0, result.stderr
    file = tmp_path / "lora" / "pytorch_lora_weights.safetensors"
    converted = tmp_path / "converted"
    merge = ("--lora", file, "--scheduler", "lcm", "--recipe", "float32", "-o", converted)
    assert (done := run("convert", tmp_path / "teacher", *merge)).exit_code == 0, done.stderr
    assert open_bundle(converted).manifest.images.steps == 4
    assert len(load_file(file)) > 100


@pytest.mark.parametrize(
    "options", [("--guidance", 3), ("--guidance", "2..3", "--lcm")], ids=["no lcm", "a range"]
)
def test_a_lora_of_another_kind_is_refused(
    tmp_path: Path, prompts: Path, options: tuple[str | int, ...]
) -> None:
    result = run("distill", tmp_path, "--prompts", prompts, *options, "--lora", 4, "-o", tmp_path / "new")
    assert result.exit_code == 2
    assert "--lora is for --lcm with one scale" in result.stderr


def test_latent_consistency_without_guidance_is_refused(tmp_path: Path, prompts: Path) -> None:
    result = run("distill", tmp_path, "--prompts", prompts, "--lcm", "-o", tmp_path / "new")
    assert result.exit_code == 2
    assert "--lcm needs --guidance" in result.stderr


@pytest.mark.parametrize("scale", ["1", "0.5", "9..3", "a", "7.5..", "..4", "nan", "1e9", "2...3"])
def test_other_scales_are_refused(tmp_path: Path, prompts: Path, scale: str) -> None:
    result = run("distill", tmp_path, "--prompts", prompts, "--guidance", scale, "-o", tmp_path / "new")
    assert result.exit_code == 2
    assert "write 7.5 or 2..14" in " ".join(result.stderr.split())


@pytest.mark.parametrize("given", [[], ["--prompts", "p.txt", "--images", "."]], ids=["neither", "both"])
def test_neither_prompts_nor_images_are_refused_and_both(tmp_path: Path, given: list[str]) -> None:
    result = run("distill", tmp_path, *given, "--steps", 4, "-o", tmp_path / "new")
    assert result.exit_code == 2
    assert "give --prompts, or --images with captions, one of the two" in " ".join(result.stderr.split())


def test_trajectories_are_for_prompts(tmp_path: Path) -> None:
    given = ("--images", tmp_path, "--trajectories", 9, "--steps", 4)
    result = run("distill", tmp_path, *given, "-o", tmp_path / "new")
    assert (result.exit_code, "--trajectories does nothing with --images" in result.stderr) == (2, True)


def test_nothing_to_do_is_refused(tmp_path: Path, prompts: Path) -> None:
    result = run("distill", tmp_path, "--prompts", prompts, "-o", tmp_path / "new")
    assert result.exit_code == 2
    assert "give --guidance, --steps, or --recover" in result.stderr


@pytest.mark.parametrize("state", ["new", "new/state"])
def test_a_state_in_the_result_is_refused(state: str, tmp_path: Path, prompts: Path) -> None:
    asked = ("--prompts", prompts, "--steps", 4, "-o", tmp_path / "new", "--state", tmp_path / state)
    result = run("distill", tmp_path, *asked)
    assert result.exit_code == 2
    assert f"lies in {tmp_path / 'new'}, which is for the student alone" in " ".join(result.stderr.split())
    assert not (tmp_path / "new").exists()


def test_an_output_with_contents_is_refused(tmp_path: Path, prompts: Path) -> None:
    result = run("distill", tmp_path, "--prompts", prompts, "--steps", 4, "-o", tmp_path)
    assert result.exit_code == 1
    assert "give a new folder" in result.stderr


def test_missing_packages_are_refused(tmp_path: Path, prompts: Path) -> None:
    def find(name: str) -> object:
        return None if name in ("accelerate", "torch") else find_spec(name)

    with patch("msd.files.packages.find_spec", find):
        result = run("distill", tmp_path, "--prompts", prompts, "--steps", 4, "-o", tmp_path / "new")
    assert result.exit_code == 1
    assert "msd distill needs accelerate and torch" in result.stderr
    assert "pip install 'msd[train]'" in result.stderr


def test_what_is_pruned_by_reconstruction_needs_no_calibration(tmp_path: Path, prompts: Path) -> None:
    """Not to be distilled, and not to be converted."""
    write(tmp_path / "teacher", SMALL)
    recipe = tmp_path / "pruned.toml"
    recipe.write_text('[[line]]\nstore = "int8"\n[prune]\nbudget = "20%"\ncriterion = "reconstruction"\n')
    options = ("--prompts", prompts, "--recover", recipe, *SHORT, "-o", tmp_path / "student")
    result = run("distill", tmp_path / "teacher", *options)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"M parameters pruned, (19|20)", result.stderr), result.stderr
    converted = run("convert", tmp_path / "student", "-o", tmp_path / "converted", "--recipe", recipe)
    assert converted.exit_code == 0, converted.stderr
    done = open_bundle(tmp_path / "converted").manifest.ledger["unet"].pruning
    assert done.criterion == "reconstruction"
    assert done.units


def test_options_are_checked_before_pytorch_is_loaded(tmp_path: Path, prompts: Path) -> None:
    """In a process of its own, where importing torch ends it."""
    write(tmp_path / "teacher", SMALL)
    (tmp_path / "torch.py").write_text("raise SystemExit(77)")
    wrong = {
        "what should the student do?": [tmp_path / "teacher", "--prompts", prompts],
        "--lcm needs --guidance": [tmp_path / "teacher", "--prompts", prompts, "--lcm"],
        "nowhere does not exist": [tmp_path / "nowhere", "--prompts", prompts, "--guidance", 3],
        "missing.txt does not exist": [tmp_path / "teacher", "--prompts", "missing.txt", "--guidance", 3],
    }
    for sentence, words in wrong.items():
        command = [sys.executable, "-m", "msd.cli", "distill", *map(str, words), "-o", str(tmp_path / "out")]
        path = os.pathsep.join([str(tmp_path), *sys.path])
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        assert done.returncode in (1, 2), done.stderr
        assert sentence in done.stderr


def test_the_device_and_the_whole_time_are_said(tmp_path: Path, prompts: Path) -> None:
    write(tmp_path / "teacher", SMALL)
    options = ("--prompts", prompts, "--guidance", 3, "--steps", 16, *SHORT, "-o", tmp_path / "student")
    result = run("distill", tmp_path / "teacher", *options)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"^on (CPU, which takes days|NVIDIA)", result.stderr, re.M)
    assert re.search(r"^[\d.]+ updates/s: the 4 of all stages take \d+ s$", result.stderr, re.M)

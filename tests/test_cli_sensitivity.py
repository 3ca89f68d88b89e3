"""`msd sensitivity` on the demo's text encoder: what was expected of the recipe is what it gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from msd.cli.sensitivity import sensitivity
from msd.recipe import read_recipe

FAST = ("--component", "text_encoder", "--steps", "1", "--kept-steps", "1")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(sensitivity, [*map(str, arguments)])


@pytest.fixture(scope="module")
def int4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipes") / "int4.toml"
    path.write_text('[[line]]\nstore = "int4"\nalgorithm = "mse"\n')
    return path


def test_a_recipe_for_an_error(int4: Path, tmp_path: Path) -> None:
    out = tmp_path / "mixed.toml"
    result = call(*FAST, "--candidate", "gpu-w8", "--candidate", int4, "--target-db", 32, "-o", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    expected, given = (found[key]["text_encoder"] for key in ("expected", "found"))
    assert given["snr_db"] >= 32
    assert given["snr_db"] == pytest.approx(expected["snr_db"], abs=1)
    assert given["bytes"] == pytest.approx(expected["bytes"], rel=0.02)
    whole = {name: parts["text_encoder"] for name, parts in found["whole"].items()}
    assert whole["int4"]["snr_db"] < 32 < whole["gpu-w8"]["snr_db"]
    assert whole["int4"]["bytes"] < given["bytes"] < whole["gpu-w8"]["bytes"]
    assert len(read_recipe(out).lines) >= 2
    again = call(*FAST, "--candidate", "gpu-w8", "--target-db", 32, "-o", out)
    assert again.exit_code == 1
    assert "--force replaces it" in again.stderr


def test_a_recipe_for_a_size(tmp_path: Path) -> None:
    only = (*FAST, "--candidate", "gpu-w8", "-o", tmp_path / "mixed.toml")
    result = call(*only, "--target-size", "40%")
    assert result.exit_code == 0, result.output
    assert "text_encoder: 0.8" not in result.stdout
    assert "text_encoder: 1." in result.stdout
    assert "40% of float32" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give one of --target-size and --target-db"),
        (("--target-size", "60%", "--target-db", "40"), "give one of"),
        (("--target-size", "many"), "many is no size; write 600MB or 60%"),
        (("--target-size", "0%"), "0% is no size"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = call("--candidate", "gpu-w8", "-o", tmp_path / "x.toml", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_help(golden: Callable[[str, str], None]) -> None:
    golden(
        "sensitivity-help.txt",
        CliRunner().invoke(sensitivity, ["--help"], prog_name="msd sensitivity").output,
    )

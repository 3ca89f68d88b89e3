"""What --dry-run promises is what is written, and a trace is announced."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import graph_rewrites
from msd.cli.convert import convert
from msd.conversion import convert as conversion
from msd.conversion.settings import Settings
from msd.models.demo import CHECKPOINT
from msd.models.networks import Network
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from tests import checkpoints


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(convert, [str(a) for a in arguments])


@pytest.mark.parametrize("recipe", ["gpu-w8", "gpu-mixed", "float16", "tflite-gpu-w8"])
def test_the_plan_is_what_is_written(recipe: str, tmp_path: Path) -> None:
    planned = json.loads(run("--dry-run", "--json", "--recipe", recipe).stdout)
    assert run("-o", tmp_path / "out", "--recipe", recipe).exit_code == 0
    written = {file.stem: file.stat().st_size for file in (tmp_path / "out").glob("*.tflite")}
    assert planned["bytes"] == pytest.approx(written, rel=5e-3)
    assert planned["estimated"] == []


def test_each_structure_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = list[str]()

    def load(network: Network, on_trace: Callable[[], None]) -> Structure:
        loaded.append(network.description.partition(" ")[0])
        return structure_of(network, on_trace)

    monkeypatch.setattr("msd.conversion.job.structure_of", load)
    assert run("-o", tmp_path / "out").exit_code == 0
    assert len(loaded) == len({*loaded}) == 3


def test_without_a_known_structure_the_weights_are_counted(tmp_path: Path) -> None:
    printed = run("--dry-run", "--size", "128x64").stdout
    assert "text_encoder.tflite      0.7 M parameters, 835.4 kB" in printed
    assert "unet.tflite              8.1 M parameters, about 8.2 MB" in printed
    assert "unet.tflite, vae_decoder.tflite: about counts the weights alone; memory is known once" in printed


def test_a_trace_is_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    checkpoints.write(tmp_path / "tiny", checkpoints.TINY)
    first, second = (run(tmp_path / "tiny", "-o", tmp_path / name) for name in ("one", "two"))
    assert first.exit_code == second.exit_code == 0
    assert first.stderr.count("TensorFlow traces the networks") == 1
    assert "TensorFlow" not in second.stderr


def test_only_a_dry_run_needs_no_output() -> None:
    refused = run()
    assert refused.exit_code == 2
    assert "Missing option '-o' / '--output'" in refused.stderr


def test_pruned_networks_are_estimated() -> None:
    planned = conversion.plan(CHECKPOINT, _pruned())
    assert planned.estimated == ("unet",)


def _pruned() -> Settings:
    from msd.conversion.choices import conversion_settings

    return conversion_settings(graph_rewrites.load(), recipe="gpu-w8-pruned")

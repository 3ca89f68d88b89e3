"""The recipes that come with msd, on the demo checkpoint and on the real delegate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert, plan
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.judging import judge
from msd.measure.report.witness import witnesses
from msd.models.demo import CHECKPOINT
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from tests.old_runtime import needs_old_runtime

LEAST = {
    "cpu-w8": 42.0,
    "float16": 100.0,
    "float32": 120.0,
    "gpu-mixed": 40.0,
    "gpu-w4": 30.0,
    "gpu-w8": 42.0,
    "tflite-gpu-w8": 42.0,
}
"""The least PSNR of the U-Net to that of float32, in dB, on random inputs."""
SHARED = {"float16", "float32", "gpu-w8"}
"""Other test files use whole conversions with these; of the rest only the U-Net is converted."""


@pytest.fixture(scope="module")
def unets(demo: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, rules = tmp_path_factory.mktemp("recipes"), graph_rewrites.load()
    bundles = {name: demo(name) if name in SHARED else folder / name for name in LEAST}
    for name in LEAST.keys() - SHARED:
        convert(CHECKPOINT, bundles[name], Settings(rules, find_recipe(name), ("unet",)))
    return {name: bundle / "unet.tflite" for name, bundle in bundles.items()}


def noise_of(path: Path) -> Array:
    """Return what the network makes of seeded inputs."""
    with Interpreter(path, float_weights=True) as network:
        (found,) = network.run(random_inputs(network.inputs.values())).values()
    return found


def test_the_numbers_of_each(unets: dict[str, Path]) -> None:
    wanted = noise_of(unets["float32"])
    found = {name: psnr(wanted, noise_of(path)) for name, path in unets.items()}
    assert all(found[name] >= LEAST[name] for name in LEAST), found
    assert found["gpu-w8"] == pytest.approx(found["cpu-w8"], abs=0.01)


def test_sizes_are_as_planned(unets: dict[str, Path]) -> None:
    """But for the padding between constants."""
    for name, path in unets.items():
        planned = plan(CHECKPOINT, Settings(graph_rewrites.load(), find_recipe(name), ("unet",)))
        assert planned.estimated == (), name
        assert planned.bytes["unet"] == pytest.approx(path.stat().st_size, rel=2e-3), name


def test_the_delegate_takes_the_mixed_one_whole(unets: dict[str, Path]) -> None:
    verdict = judge(unets["gpu-mixed"])
    assert verdict.ok, verdict
    assert verdict.delegated == verdict.operations


@needs_old_runtime
def test_the_one_for_cpus_runs_on_an_old_one_too(unets: dict[str, Path]) -> None:
    runtime = witnesses(unets["cpu-w8"], 60)[0]
    assert runtime.ok, runtime.says
    with Interpreter(unets["cpu-w8"]) as plain:
        inputs = random_inputs(plain.inputs.values())
        (found,) = plain.run(inputs).values()
    np.testing.assert_allclose(found, noise_of(unets["cpu-w8"]), rtol=1e-4, atol=1e-5)

"""The registry of backends, what each takes, and how commands name them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from msd.cli import msd
from msd.errors import BadConfig
from msd.run.runners.backend import Backend
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.registry import backends, find_backend
from msd.run.runners.runner import Conditions, Isolation
from tests import tiny_models
from tests.old_runtime import needs_old_runtime

RUNNING = [backend for backend in backends().values() if backend.open]


def test_those_that_run_networks_come_before_those_that_only_measure() -> None:
    assert list(backends()) == ["litert-cpu", "litert-gpu", "tflite-runtime", "webgpu", "android"]
    assert [backend.spelling for backend in RUNNING] == ["cpu", "gpu", "tflite-runtime", "webgpu"]


def test_a_backend_is_found_by_its_name_and_by_its_alias() -> None:
    assert find_backend("gpu") is find_backend("litert-gpu")
    with pytest.raises(BadConfig, match="no backend is called 'npu'; there are litert-cpu, litert-gpu, "):
        find_backend("npu")


def test_a_backend_is_given_the_defaults_of_what_it_does_not_take() -> None:
    asked = Conditions(threads=3, float_weights=False, precision="fp16", seconds=7.0)
    assert find_backend("gpu").applicable(asked) == Conditions(precision="fp16", seconds=7.0)
    assert find_backend("cpu").applicable(asked) == Conditions(threads=3, float_weights=False, seconds=7.0)
    assert Engine(find_backend("cpu"), asked).precision == "fp32"


def test_a_backend_that_only_measures_runs_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="the backend android only measures networks and cannot run them"):
        Engine(find_backend("android")).load(tmp_path / "any.tflite")


@pytest.mark.parametrize("isolation", ["none", "process", "mapped"])
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(each, id=each.name, marks=needs_old_runtime if each.name == "tflite-runtime" else ())
        for each in RUNNING
    ],
)
def test_every_runner_says_what_it_runs_and_what_that_took(
    backend: Backend, isolation: Isolation, tmp_path: Path
) -> None:
    path = tiny_models.save("whole", tmp_path)
    with Interpreter(path, float_weights=True) as reference:
        inputs = random_inputs(reference.inputs.values())
        wanted = reference.run(inputs)
    with Engine(backend, Conditions(threads=1, isolation=isolation)).load(path) as runner:
        assert (runner.path, runner.inputs, runner.outputs) == (path, reference.inputs, reference.outputs)
        for _ in range(2):
            for name, value in runner.run(inputs).items():
                np.testing.assert_allclose(value, wanted[name], atol=1e-5)
        assert runner.load_seconds > 0
        assert len(runner.run_seconds) == 2
        assert min(runner.run_seconds) > 0
        assert 1 << 20 < (runner.memory.before or 0) <= (runner.memory.peak or 0)
        assert isinstance(runner.log, str)
        place = runner.placement
    found = backend.prepare(Conditions()).adapter
    assert (place.processor, place.threads) == ((found.name, None) if found else ("CPU", 1))
    assert place.precision == "fp32"


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(msd, [*map(str, arguments)])
    return result.exit_code, result.output


def test_commands_take_either_spelling_and_write_their_own(bundle_folder: Path, tmp_path: Path) -> None:
    image = "--prompt", "fox", "--steps", 1, "-o", tmp_path / "a.png", "--json"
    code, text = call("generate", bundle_folder, "--backend", "litert-cpu", *image)
    assert (code, json.loads(text.splitlines()[-1])["backend"]) == (0, "cpu"), text
    output = tmp_path / "bench.json"
    effort = "--repeats", 1, "--min-seconds", 0, "--component", "unet", "-o", output
    code, text = call("bench", bundle_folder, "--backend", "cpu", *effort)
    assert code == 0, text
    (bundle,) = json.loads(output.read_text())["bundles"]
    assert [measured["backend"] for measured in bundle["measurements"]] == ["litert-cpu"]


def test_generate_does_not_offer_what_only_measures(bundle_folder: Path, tmp_path: Path) -> None:
    image = "--prompt", "fox", "-o", tmp_path / "a.png"
    code, text = call("generate", bundle_folder, "--backend", "android", *image)
    assert code == 2
    assert "'android' is not one of 'cpu', 'gpu', 'tflite-runtime'" in text

"""The CPU in a process of its own: the interpreter's numbers to the last bit, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Timer

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.errors import BadModelFile, DelegateFailed
from msd.run.runners import memory_sampler
from msd.run.runners.backends.litert_cpu import CpuProcess
from msd.run.runners.child import Child
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.runner import Conditions
from tests import tiny_models
from tests.stable_diffusion import COMPONENTS

DYNAMIC = Conditions(threads=1, float_weights=False, isolation="mapped")

INTERRUPTED = """
import functools, sys
import msd.run.runners.process_runner as process_runner
import msd.run.runtime.pipeline as pipeline
from msd.cli import msd
pipeline.LARGE = 0
process_runner.Child = functools.partial(process_runner.Child, worker="tests.slow_worker")
msd(["generate", *sys.argv[1:]])
"""


@pytest.mark.parametrize("float_weights", [False, True])
@pytest.mark.parametrize("component", COMPONENTS)
def test_the_numbers_are_the_interpreter_s(component: str, float_weights: bool, demo_int8: Path) -> None:
    path = open_bundle(demo_int8).path(component)
    random = np.random.default_rng(5)
    with Interpreter(path, threads=2, float_weights=float_weights) as here:
        inputs = {
            name: random.integers(0, 400, port.shape).astype(port.dtype)
            if port.dtype == "int32"
            else random.standard_normal(port.shape, np.float32)
            for name, port in here.inputs.items()
        }
        wanted = [here.run(inputs), here.run({name: value[..., ::-1] for name, value in inputs.items()})]
    with CpuProcess(path, Conditions(threads=2, float_weights=float_weights, isolation="mapped")) as apart:
        found = [apart.run(inputs), apart.run({name: value[..., ::-1] for name, value in inputs.items()})]
    for one, other in zip(wanted, found, strict=True):
        assert list(one) == list(other)
        for name in one:
            assert np.array_equal(one[name], other[name])
    (name,) = wanted[0]
    assert not np.array_equal(wanted[0][name], wanted[1][name])


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "zeros.tflite"
    path.write_bytes(b"\0" * 4096)
    with pytest.raises(BadModelFile, match=r"zeros\.tflite"):
        CpuProcess(path, DYNAMIC)


def test_inputs_of_other_shapes_are_refused(tmp_path: Path) -> None:
    with (
        CpuProcess(tiny_models.save("copy_only", tmp_path), DYNAMIC) as session,
        pytest.raises(BadModelFile),
    ):
        session.run({"x": np.zeros(3, np.float32)})


def test_a_lost_process_is_a_sentence(tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    with CpuProcess(path, DYNAMIC) as session:
        inputs = {name: np.zeros(port.shape, port.dtype) for name, port in session.inputs.items()}
        session.run(inputs)
        session._child.process.kill()
        with pytest.raises(DelegateFailed, match=r"copy_only.*\.tflite was lost on the CPU: .* SIGKILL"):
            session.run(inputs)


def test_a_load_that_nobody_waits_for_ends(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Event()
    monkeypatch.setenv("LOADING", str(tmp_path / "loading"))
    monkeypatch.setattr("msd.run.runners.process_runner.Child", partial(Child, worker="tests.slow_worker"))
    Timer(0.5, stop.set).start()
    with pytest.raises(DelegateFailed, match="its result is no longer needed"):
        CpuProcess(open_bundle(bundle_folder).path("vae_decoder"), replace(DYNAMIC, stop=stop))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_during_a_load_leaves_no_process_and_no_file(
    number: signal.Signals, code: int, bundle_folder: Path, tmp_path: Path
) -> None:
    """The signal is for the command alone: its children do not get it, as they would from a terminal."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    options = ["--prompt", "fox", "--steps", "3", "-o", tmp_path / "a.png", "--timeline", tmp_path / "a.svg"]
    command = [sys.executable, "-c", INTERRUPTED, bundle_folder, *options]
    environment = {**os.environ, "TMPDIR": str(folder), "LOADING": str(tmp_path / "loading")}
    with subprocess.Popen(
        [*map(str, command)], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        pid = _number_in(tmp_path / "loading")
        children = memory_sampler.descendants(process.pid)
        assert pid in children
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert not [child for child in children if memory_sampler.resident(child)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loading", "temporary"]
    assert list(folder.iterdir()) == []


def _number_in(path: Path) -> int:
    """The number in a file, once it is there."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written in time")

"""Processes that start before their files: they load one after another, and a lost one is its file's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import numpy as np
import pytest

from msd.errors import BadModelFile, DelegateFailed, NoDelegate
from msd.gpu.gpu_api import GpuApi, usable_apis
from msd.run.runners import adapter, processes, remembered_probe
from msd.run.runners.backends.webgpu import BACKEND, WebGpuProcess, find_adapter, processes_ahead
from msd.run.runners.child import Bounds, Child
from msd.run.runners.driver_cache import VARIABLE
from msd.run.runners.probe import ProbeResult
from msd.run.runners.processes import Processes
from msd.run.runners.runner import Conditions
from tests import tiny_models

BOUNDS = Bounds.of(60)


@pytest.fixture
def ahead() -> Processes:
    adapter._find.cache_clear()  # another test's find may have had a cache folder of its own
    find_adapter(Conditions())
    found = processes_ahead(Conditions(), 1)
    assert found is not None, "the probe's result is remembered now"
    return found


def load(path: Path, processes: Processes) -> WebGpuProcess:
    return WebGpuProcess(path, Conditions(processes=processes))


def test_a_process_takes_one_file_after_another_and_opens_the_gpu_once(
    ahead: Processes, tmp_path: Path
) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    x = np.random.default_rng(0).standard_normal(tiny_models.SHAPE).astype(np.float32)
    with ahead:
        parts, pids = [], set()
        for _ in range(2):
            with load(path, ahead) as runner:
                np.testing.assert_array_equal(runner.run({"x0": x})["y"], np.maximum(x, 0))
                parts.append([phase.name for phase in runner.opening.phases])
                pids.add(runner._child.process.pid)
        assert len(pids) == 1
        assert parts[0][0] == "device"
        assert "device" not in parts[1]


def test_another_file_side_by_side_has_a_process_of_its_own(ahead: Processes, tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    with ahead, load(path, ahead) as first, load(path, ahead) as second:
        assert first._child.process.pid != second._child.process.pid


def test_a_crash_names_the_file_and_the_next_file_has_another_process(
    ahead: Processes, tmp_path: Path
) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    x = np.zeros(tiny_models.SHAPE, np.float32)
    with ahead:
        with load(path, ahead) as runner:
            os.kill(runner._child.process.pid, signal.SIGSEGV)
            with pytest.raises(
                DelegateFailed, match=f"WebGPU was lost with {path}: its process crashed with SIGSEGV"
            ):
                runner.run({"x0": x})
        with load(path, ahead) as runner:
            assert runner.run({"x0": x})["y"].shape == tiny_models.SHAPE


def test_a_process_that_ends_before_it_has_a_file_is_not_taken(ahead: Processes) -> None:
    with ahead:
        process = ahead._idle[0].process
        process.kill()
        process.wait()
        assert ahead.take(BOUNDS, "unet") is None


def test_the_answer_to_an_interrupted_run_is_not_taken_for_that_of_the_next_file(
    ahead: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    x = np.random.default_rng(0).standard_normal(tiny_models.SHAPE).astype(np.float32)

    def interrupt(child: Child, until: float) -> None:
        raise KeyboardInterrupt

    with ahead:
        with load(path, ahead) as runner, monkeypatch.context() as patch:
            patch.setattr(Child, "_wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                runner.run({"x0": x})
        with load(path, ahead) as runner:
            np.testing.assert_array_equal(runner.run({"x0": x})["y"], np.maximum(x, 0))


def test_a_file_that_is_not_freed_in_time_ends_its_process(
    ahead: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "SECONDS", 0.1)
    with ahead:
        with load(tiny_models.save("copy_only", tmp_path), ahead) as runner:
            os.kill(runner._child.process.pid, signal.SIGSTOP)
        assert runner._child.process.poll() == -signal.SIGKILL
        assert ahead.take(BOUNDS, "unet") is None


def test_all_of_them_end_with_the_block(ahead: Processes) -> None:
    process = ahead._idle[0].process
    with ahead:
        assert process.poll() is None
    assert process.poll() == -signal.SIGKILL


def test_a_gpu_that_must_be_probed_is_probed_while_processes_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on, probed = Event(), Event(), Event()

    def find_slowly(*apis: GpuApi) -> None:
        started.set()
        assert go_on.wait(60)
        probed.set()

    monkeypatch.setattr(adapter, "is_remembered", lambda driver: False)
    monkeypatch.setattr(adapter, "find", find_slowly)
    both = processes_ahead(Conditions(), 2)
    assert both is not None, "it does not wait for the probe"
    with both:
        assert started.wait(60)
        assert len(both._idle) == 2
        go_on.set()
        assert probed.wait(60)


def test_a_process_on_a_driver_that_find_passes_over_is_not_taken(ahead: Processes, tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    ahead.environment = {**ahead.environment, "VK_ICD_FILENAMES": "another driver's.json"}
    with ahead:
        (idle,) = ahead._idle
        with load(path, ahead) as runner:
            assert runner._child is not idle


def test_no_adapter_at_all_is_said_by_the_first_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(*apis: GpuApi) -> None:
        raise NoDelegate("the GPU delegate runs on no Vulkan adapter here")

    monkeypatch.setattr(adapter, "is_remembered", lambda driver: False)
    monkeypatch.setattr(adapter, "find", find_none)
    raised: list[object] = []
    monkeypatch.setattr("threading.excepthook", raised.append)
    both = processes_ahead(Conditions(), 1)
    assert both is not None
    both.close()
    for thread in enumerate_threads():
        if thread.name.endswith("(_probe)"):
            thread.join()
    assert not raised
    with pytest.raises(NoDelegate, match="no Vulkan adapter"):
        BACKEND.prepare(Conditions())


def test_a_gpu_whose_driver_must_be_installed_first_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "first_driver", lambda *apis: None)
    assert processes_ahead(Conditions(), 2) is None


def test_what_find_finds_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may name a driver, which what was found before does not know."""
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):
        monkeypatch.delenv(name, raising=False)
    adapter._find.cache_clear()
    for apis in ((), usable_apis()):
        found = adapter.find(*apis)
        driver = adapter.first_driver(*apis)
        assert driver is not None
        assert (dict(driver.environment), driver.api) == (dict(found.environment), found.api)
        assert adapter.is_remembered(driver)


def test_a_network_takes_the_process_whose_driver_has_compiled_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSD_CACHE", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    for _ in range(2):
        with Processes(2, {}) as both:
            taken = {name: both.take(BOUNDS, name) for name in ("unet", "text_encoder")}
            folders = {name: child.cache.folder for name, child in taken.items() if child}
            assert folders == {"unet": tmp_path / "drivers/0", "text_encoder": tmp_path / "drivers/1"}
            for child in taken.values():
                assert child
                child.close()
        with Processes(2, {}) as both:
            taken = {name: both.take(BOUNDS, name) for name in ("text_encoder", "unet")}
            assert {name: child.cache.folder for name, child in taken.items() if child} == folders
            for child in taken.values():
                assert child
                child.close()


def remember_driver(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Name a driver in the environment, whose probe is remembered in a cache of its own."""
    (folder / "icd.json").write_text('{"ICD": {"library_path": "libvulkan_gpu.so"}}')
    patch.setenv("VK_DRIVER_FILES", str(folder / "icd.json"))
    patch.setenv("MSD_CACHE", str(folder / "cache"))
    patch.setattr(adapter, "_has_loader", lambda: True)
    driver = adapter.first_driver(*usable_apis())
    assert driver is not None
    path = remembered_probe._path(driver.environment, adapter._gpus(), driver.api)
    assert path is not None
    remembered_probe._remember(path, ProbeResult("a GPU", "GPU", half_floats=True))
    assert adapter.is_remembered(driver)


def test_processes_start_before_numpy_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes as long as a driver takes to open a GPU."""
    remember_driver(tmp_path, monkeypatch)
    code = f"""
import subprocess, sys
from msd.cli import msd
from msd.run.runners import adapter

class Started(subprocess.Popen):
    def __init__(self, *words, **settings):
        super().__init__(*words, **settings)
        if "msd.run.runners.worker" in str(words):
            sys.exit("numpy" in sys.modules and "NumPy is there" or "NumPy is not there")

adapter._has_loader = lambda: True
subprocess.Popen = Started
msd(["generate", {str(tmp_path)!r}, "-p", "a fox", "--backend", "webgpu", "--steps", "2"])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.stderr.strip().endswith("NumPy is not there")


def test_a_file_that_is_no_model_is_refused_though_its_process_was_asked_to_load_it(
    ahead: Processes, tmp_path: Path
) -> None:
    broken, path = tmp_path / "broken.tflite", tiny_models.save("copy_only", tmp_path)
    broken.write_bytes(b"no model")
    x = np.random.default_rng(0).standard_normal(tiny_models.SHAPE).astype(np.float32)
    with ahead:
        with pytest.raises(BadModelFile, match=str(broken)):
            load(broken, ahead)
        with load(path, ahead) as runner:
            np.testing.assert_array_equal(runner.run({"x0": x})["y"], np.maximum(x, 0))

"""The child process: its answers, its end, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from msd.run.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.run.runners.messages import LoadOnCpu, RunModel
from msd.run.runners.native_log import parse
from tests import tiny_models

BOUNDS = Bounds.of(30)


def test_it_answers_with_outputs_and_seconds(tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    x = np.random.default_rng(0).standard_normal(tiny_models.SHAPE).astype(np.float32)
    with Child({}, BOUNDS) as child:
        child.ask(LoadOnCpu(path))
        done = child.ask(RunModel({"x0": x}))
    np.testing.assert_array_equal(done.outputs["y"], np.maximum(x, 0))
    assert done.seconds > 0


def test_it_says_what_memory_loading_and_running_took(tmp_path: Path) -> None:
    with Child({}, BOUNDS) as child:
        loaded = child.ask(LoadOnCpu(tiny_models.save("copy_only", tmp_path), threads=1))
        ran = child.ask(RunModel({"x0": np.zeros(tiny_models.SHAPE, np.float32)}))
        assert 1 << 20 < loaded.before <= loaded.peak <= ran.peak < 1 << 33
        assert loaded.seconds > 0


def test_it_says_what_the_cpus_own_delegate_took(tmp_path: Path) -> None:
    with Child({}, BOUNDS) as child:
        child.ask(LoadOnCpu(tiny_models.save("whole", tmp_path)))
        ((taken, every, _),) = parse(child.log).on_cpu
        assert 0 < taken <= every


def test_the_memory_of_what_it_starts_is_its_own_too() -> None:
    with Child({}, BOUNDS, "tests.stand_in_worker") as child:
        child.ask("1.5")
        assert child.peak > 200_000_000


def test_a_refusal_leaves_it_alive(tmp_path: Path) -> None:
    with Child({}, BOUNDS) as child:
        with pytest.raises(ChildRefused, match="No such file"):
            child.ask(LoadOnCpu(tmp_path / "missing.tflite"))
        child.ask(LoadOnCpu(tiny_models.save("copy_only", tmp_path)))


def test_running_before_loading_is_refused() -> None:
    with Child({}, BOUNDS) as child, pytest.raises(ChildRefused, match="loads before it runs"):
        child.ask(RunModel({}))


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_crash_names_its_signal(number: signal.Signals, tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    with Child({}, BOUNDS) as child:
        child.ask(LoadOnCpu(path))
        os.kill(child.process.pid, number)
        with pytest.raises(ChildLost, match=f"its process crashed with {number.name}"):
            child.ask(LoadOnCpu(path))


def test_a_hang_is_ended(tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    with Child({}, Bounds.of(60)) as child:
        child.ask(LoadOnCpu(path))
        child.bounds = Bounds.of(2)
        os.kill(child.process.pid, signal.SIGSTOP)
        with pytest.raises(ChildLost, match="stopped after 2 s"):
            child.ask(LoadOnCpu(path))
        assert child.process.returncode == -signal.SIGKILL


def test_too_much_memory_ends_it(tmp_path: Path) -> None:
    with Child({}, Bounds(30, 1000)) as child, pytest.raises(ChildLost, match="of memory"):
        child.ask(LoadOnCpu(tiny_models.save("copy_only", tmp_path)))


def environment(child: Child) -> dict[bytes, bytes]:
    """Return what the child really has, once it answers."""
    with pytest.raises(ChildRefused):
        child.ask(RunModel({}))
    entries = Path(f"/proc/{child.process.pid}/environ").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if entry)


def test_its_environment_is_its_own() -> None:
    with Child({"MSD_TEST_MARK": "here"}, BOUNDS) as child:
        assert environment(child)[b"MSD_TEST_MARK"] == b"here"
    assert "MSD_TEST_MARK" not in os.environ


def test_it_has_a_writable_runtime_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    with Child({}, BOUNDS) as child:
        folder = Path(os.fsdecode(environment(child)[b"XDG_RUNTIME_DIR"]))
        assert os.access(folder, os.W_OK)
    assert not folder.exists()


def test_closing_ends_it() -> None:
    child = Child({}, BOUNDS)
    child.close()
    assert child.process.returncode is not None


def test_a_process_that_cannot_start_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        Child({}, BOUNDS)
    assert os.listdir("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []


PARENT = """
from msd.run.runners.child import Bounds, Child

with Child({}, Bounds.of(600), "tests.deaf_worker") as child:
    print(child.process.pid, flush=True)
    child.ask(None)
"""


def test_it_ends_with_its_parent_however_that_ends() -> None:
    """The worker is inside a C function that no thread of Python interrupts."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        awaiting(lambda: "deaf" in Path(f"/proc/{child}/comm").read_text())
        parent.kill()
    awaiting(lambda: has_ended(child))


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or is only kept for somebody who waits for it."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


def awaiting(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen within a minute"
        time.sleep(0.05)


def test_memory_is_bounded_by_what_is_free() -> None:
    assert 0 < Bounds.of(1).memory < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert Bounds.of(1, 12345).memory == 12345

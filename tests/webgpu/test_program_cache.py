"""Compiled programs in the cache: what is opened again is not compiled again, and computes the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from msd.errors import DelegateFailed, ProgramRefused
from msd.files import scratch
from msd.gpu import compile as compile_module
from msd.gpu import mapped_pages, program_cache
from msd.gpu import open_session as open_session_module
from msd.gpu.compile import compile_fused, compile_model, fused_graph
from msd.gpu.device import OpenDevice
from msd.gpu.fuse import FusedGraph
from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.open_session import OpenedFile, open_session
from msd.gpu.phases import Phases
from msd.gpu.program import ComputePipeline, Program
from msd.gpu.program_cache import entry_of
from msd.gpu.store import NAME
from msd.gpu.switches import Switches
from msd.graph import tflite
from msd.graph.ir import Build, Model, Tensor
from msd.graph.ir.weights import Array
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from tests import tiny_models
from tests.harness import build
from tests.webgpu_device import device

COMPILED = ["read", "compile", "constants", "upload", "pipelines"]
CACHED = ["cache", "constants", "upload", "pipelines"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "programs"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tiny_models.save("two_by_two", tmp_path)


def opened(
    path: Path, on: OpenDevice | None = None, switches: Switches | None = None
) -> tuple[OpenedFile, list[str]]:
    """Return an opened file, and the parts of opening it."""
    phases = Phases()
    file = open_session(path, lambda: on or device(), switches or Switches(), phases)
    return file, sorted((phase.name for phase in phases.all), key=[*COMPILED, *CACHED].index)


def parts(path: Path, on: OpenDevice | None = None, switches: Switches | None = None) -> list[str]:
    """Return the parts of opening a file, which is closed again."""
    file, found = opened(path, on, switches)
    file.session.close()
    return found


def outputs(file: OpenedFile) -> dict[str, Array]:
    """Return what a file computes of numbers from a seed."""
    rng = np.random.default_rng(0)
    ports = file.session.program.inputs.items()
    with file.session as session:
        return session.run({name: rng.standard_normal(port.shape, np.float32) for name, port in ports})


def test_the_second_opening_compiles_nothing_and_computes_the_same(cache: Path, path: Path) -> None:
    first, found = opened(path)
    assert sorted(found) == sorted(COMPILED)
    second, again = opened(path)
    assert sorted(again) == sorted(CACHED)
    assert (first.operations, first.remarks) == (second.operations, second.remarks)
    here, there = outputs(first), outputs(second)
    assert here
    for name, value in here.items():
        np.testing.assert_array_equal(there[name], value)
    assert [entry.parent for entry in cache.glob(f"*/{NAME}")] == [entry_of(path, device(), Switches())]


def resident(path: Path) -> int:
    """Return the bytes of a file that are in this process's memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += 1024 * int(line.split()[1])
    return found


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell")
def test_the_pages_of_constants_leave_the_memory(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "wide.tflite"
    weights = [rng.standard_normal((512, 512), np.float32) for _ in range(6)]

    def layers(new: Build, x: Tensor) -> Tensor:
        for each in weights:
            x = new.FULLY_CONNECTED(x, new.const(each), None)
        return x

    tflite.write(Model([build(layers, x=(1, 512))]), path)
    monkeypatch.setattr(mapped_pages, "ROOM", 1 << 20)
    file, _ = opened(path)
    assert path.stat().st_size > 6 << 20
    assert resident(path) <= 2 << 20
    x = rng.standard_normal((1, 512), np.float32)
    with file.session as session:
        (found,) = session.run({"x": x}).values()
    wanted = x
    for each in weights:
        wanted = wanted @ each.T
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_a_file_that_is_not_in_the_cache_is_fused_while_the_device_opens(
    cache: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused, fuse = Event(), compile_module.fused_graph

    def note(model: Model, switches: Switches) -> FusedGraph:
        fused.set()
        return fuse(model, switches)

    def open_slowly() -> OpenDevice:
        assert fused.wait(60), "nothing is fused until the device is open"
        return device()

    monkeypatch.setattr(compile_module, "fused_graph", note)
    first = open_session(path, open_slowly, Switches(), Phases())
    fused.clear()
    second = open_session(path, device, Switches(), Phases())
    assert not fused.is_set()
    computed, again = outputs(first), outputs(second)
    for name, result in computed.items():
        np.testing.assert_array_equal(result, again[name])


def test_pipelines_are_made_before_the_program_is_known(demo_int8: Path) -> None:
    """Those that are made for nothing belong to dispatches whose results nothing reads."""
    model, ahead = tflite.read(demo_int8 / "unet.tflite"), set[ComputePipeline]()
    gpu = Gpu(half=True)
    program = compile_fused(fused_graph(model, Switches()), gpu, Switches(), ahead.add)
    assert len(ahead & {*program.pipelines}) >= 0.9 * len(program.pipelines)
    assert len(ahead - {*program.pipelines}) <= 2


def test_a_file_that_cannot_be_compiled_is_refused_though_its_pipelines_were_begun(
    cache: Path, tmp_path: Path
) -> None:
    def chain(new: Build, x: Tensor) -> Tensor:
        for number in range(20):
            x = new.MAXIMUM(x, np.full(5, number, np.float32)) if number % 2 else new.EXP(x)
        return new.FLOOR(x)

    path = tmp_path / "unknown.tflite"
    tflite.write(Model([build(chain, x=(3, 5))]), path)
    with pytest.raises(DelegateFailed, match=r"FLOOR, operator 20 .* has no kernel"):
        open_session(path, device, Switches(), Phases())


@pytest.mark.parametrize(
    "other",
    [
        lambda opened: replace(opened, driver="another"),
        lambda opened: replace(opened, name="another"),
        lambda opened: replace(opened, gpu=replace(opened.gpu, enough_workgroups=5)),
    ],
)
def test_another_gpu_or_driver_has_an_entry_of_its_own(
    cache: Path, path: Path, other: Callable[[OpenDevice], OpenDevice]
) -> None:
    parts(path)
    assert "compile" in parts(path, other(device()))
    assert "compile" not in parts(path)


def test_other_optimisations_have_an_entry_of_their_own(cache: Path, path: Path) -> None:
    parts(path)
    assert "compile" in parts(path, switches=Switches(winograd=False))


def test_other_code_misses(cache: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(path)
    monkeypatch.setattr(program_cache, "code_fingerprint", lambda *places: "another")
    assert "compile" in parts(path)


def test_a_file_that_was_written_again_misses(cache: Path, path: Path) -> None:
    """Though its content, its size and even its time are the same."""
    parts(path)
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "compile" in parts(path)


def test_what_is_gone_after_the_run_is_not_kept(cache: Path) -> None:
    with scratch.scratch_folder() as folder:
        assert "compile" in parts(tiny_models.save("two_by_two", folder))
    assert not list(cache.glob("*"))


def flip(entry: Path) -> None:
    """Change one bit of a constant."""
    binary = next(entry.glob("*.bin"))
    content = bytearray(binary.read_bytes())
    content[0] ^= 1
    binary.write_bytes(content)


def cut(entry: Path) -> None:
    """Cut program.json off."""
    (entry / NAME).write_bytes((entry / NAME).read_bytes()[:-9])


def remove(entry: Path) -> None:
    """Delete the constants."""
    next(entry.glob("*.bin")).unlink()


@pytest.mark.parametrize("damage", [flip, cut, remove])
def test_a_damaged_entry_is_made_anew_and_said(
    cache: Path, path: Path, damage: Callable[[Path], None]
) -> None:
    first, _ = opened(path)
    entry = entry_of(path, device(), Switches())
    assert entry is not None
    damage(entry)
    second, found = opened(path)
    assert "compile" in found
    (remark,) = second.remarks
    assert remark.startswith("its compiled program in the cache was unusable and was made anew: ")
    assert str(entry) in remark
    third, again = opened(path)
    assert "cache" in again
    wanted, mine, kept = (outputs(file) for file in (first, second, third))
    for name, value in wanted.items():
        np.testing.assert_array_equal(mine[name], value)
        np.testing.assert_array_equal(kept[name], value)


def test_an_entry_gets_its_name_when_it_is_whole(
    cache: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError("no space left on the device")

    with monkeypatch.context() as patch:
        patch.setattr(program_cache._EntryWriter, "_written", full)
        file, _ = opened(path)
        assert outputs(file)
    assert not list(cache.glob("*"))
    assert "compile" in parts(path)
    assert "cache" in parts(path)


def test_the_least_recently_used_entries_make_room(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tiny_models.save("two_by_two", folder) for folder in _folders(tmp_path, 3)]
    entries = [entry_of(path, device(), Switches()) for path in paths]
    for path, entry in zip(paths[:2], entries, strict=False):
        parts(path)
        assert entry is not None
        os.utime(entry / NAME, (1, 1))
    assert "cache" in parts(paths[0])
    used = sum(file.stat().st_size for file in cache.glob("*/*"))
    monkeypatch.setattr(program_cache, "MOST_BYTES", used + used // 4)
    parts(paths[2])
    assert [entry is not None and entry.exists() for entry in entries] == [True, False, True]


def _folders(root: Path, count: int) -> list[Path]:
    folders = [root / str(number) for number in range(count)]
    for folder in folders:
        folder.mkdir()
    return folders


def test_no_room_for_an_entry_is_no_failure(cache: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "MOST_BYTES", 0)
    assert "compile" in parts(path)
    assert not list(cache.glob("*"))


def test_the_process_tells_its_parent_how_it_opened_the_file(cache: Path, path: Path) -> None:
    results = []
    for expected in ("compile", "cache"):
        with WebGpuProcess(path, Conditions()) as process:
            names = [phase.name for phase in process.opening.phases]
            assert names[0] == "device"
            assert expected in names
            assert all(0 <= phase.seconds < 600 for phase in process.opening.phases)
            results.append(process.run(random_inputs(process.inputs.values())))
    for name, value in results[0].items():
        np.testing.assert_array_equal(results[1][name], value)


class RefusedMatrices:
    """A stand-in for Session on a GPU that refuses shaders with matrix units, which no machine here has."""

    def __init__(self, program: Program, on: OpenDevice, phases: Phases) -> None:
        if any("subgroupMatrix" in pipeline.wgsl for pipeline in program.pipelines):
            raise ProgramRefused("its shaders were refused")
        self.program = program


def test_a_gpu_that_refuses_matrix_units_runs_without_them_and_says_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wide.tflite"
    sides = {"a": (2, 128, 128), "b": (2, 128, 128)}
    tflite.write(Model([build(lambda new, a, b: new.BATCH_MATMUL(a, b), **sides)]), path)
    claiming = replace(device(), gpu=replace(device().gpu, half=True, matrix=MatrixUnit(16, 16, 16, 32)))
    assert "subgroupMatrix" in str(compile_model(tflite.read(path), claiming.gpu, Switches()).pipelines)
    monkeypatch.setattr(open_session_module, "Session", RefusedMatrices)
    file = open_session(path, lambda: claiming, Switches(), Phases())
    assert "subgroupMatrix" not in str(file.session.program.pipelines)
    (remark,) = file.remarks
    assert remark.startswith(
        "it runs without the GPU's matrix units, whose shaders were refused: its shaders"
    )
    monkeypatch.setattr(RefusedMatrices, "__init__", lack_memory)
    with pytest.raises(DelegateFailed, match="memory"):
        open_session(path, lambda: claiming, Switches(), Phases())
    monkeypatch.setattr(RefusedMatrices, "__init__", refuse)
    with pytest.raises(ProgramRefused, match="refused"):
        open_session(path, device, Switches(), Phases())


def refuse(*arguments: object) -> None:
    raise ProgramRefused("its shaders were refused")


def lack_memory(*arguments: object) -> None:
    assert "subgroupMatrix" in str(arguments[1]), "a smaller program is not tried: it needs the same memory"
    raise DelegateFailed("the GPU's memory is too small")

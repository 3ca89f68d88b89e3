"""Finding an adapter and unpacking SwiftShader, and every way in which that fails."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from msd.errors import NoDelegate
from msd.gpu.gpu_api import GpuApi
from msd.graph import tflite
from msd.run.runners import adapter, probe, remembered_probe, swiftshader, verbosity
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.probe import ProbeResult


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with no driver, no browser and an empty cache, whose package lists are empty."""
    for name in adapter.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(swiftshader, "BROWSERS", ())
    monkeypatch.setattr(adapter, "DEVICES", ())
    for folder in ("lists/partial", "apt/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    empty = tmp_path / "apt.conf"
    empty.write_text(
        f'Dir::State::Lists "{tmp_path}/lists";\nDir::Etc::SourceList "/dev/null";\n'
        f'Dir::Etc::SourceParts "/dev/null";\nDir::Cache "{tmp_path}/apt";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(empty))
    return tmp_path


def package(folder: Path, files: dict[str, str]) -> Path:
    """Build a Debian package with `files` under /usr/lib/chromium."""
    root = folder / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: chromium-common\nVersion: 1.2-3\nArchitecture: all\n"
        "Maintainer: Nobody <nobody@example.com>\nDescription: test\n"
    )
    (root / "usr/lib/chromium").mkdir(parents=True)
    for name, content in files.items():
        (root / "usr/lib/chromium" / name).write_text(content)
    path = folder / "chromium-common_1.2-3_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(root), str(path)], check=True, capture_output=True)
    return path


def test_an_adapter_is_found_and_named() -> None:
    found = adapter.find()
    assert found.name
    assert found.origin
    assert found.software == found.type.startswith("CPU")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Mapping[str, str]]:
    """The environments that were probed, in a cache of their own."""
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    seen: list[Mapping[str, str]] = []

    def probed(environment: Mapping[str, str], api: GpuApi | None) -> ProbeResult:
        seen.append(environment)
        return ProbeResult("a GPU", "discrete", half_floats=True)

    monkeypatch.setattr(remembered_probe, "probe", probed)
    return seen


def probed_now(environment: Mapping[str, str]) -> ProbeResult:
    """Return what is known of a driver with the devices that the machine has now."""
    return remembered_probe.probed(environment, adapter._gpus())


def test_a_driver_is_probed_once(probes: list[Mapping[str, str]], tmp_path: Path) -> None:
    first = probed_now({"LD_LIBRARY_PATH": "/a"})
    assert probed_now({"LD_LIBRARY_PATH": "/a"}) == first
    probed_now({"LD_LIBRARY_PATH": "/b"})
    assert len(probes) == 2
    for kept in (tmp_path / "cache/adapters").iterdir():
        kept.write_text("{")
    assert probed_now({"LD_LIBRARY_PATH": "/a"}) == first
    assert len(probes) == 3


def test_another_start_driver_or_device_is_probed_again(
    probes: list[Mapping[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    icd, library, boot = tmp_path / "a.json", tmp_path / "a.so", tmp_path / "boot"
    icd.write_text(json.dumps({"ICD": {"library_path": "a.so"}}))
    library.write_text("1")
    boot.write_text("first")
    monkeypatch.setattr(remembered_probe, "BOOT", boot)
    environment = {"VK_ICD_FILENAMES": str(icd)}
    changes: list[Callable[[], object]] = [
        lambda: boot.write_text("second"),
        lambda: library.write_text("22"),
        lambda: icd.write_text(json.dumps({"ICD": {"library_path": "./a.so"}})),
        lambda: monkeypatch.setattr(adapter, "DEVICES", ("null",)),
        lambda: monkeypatch.setattr(remembered_probe, "installed_versions", lambda *names: {"x": "2"}),
    ]
    probed_now(environment)
    for number, change in enumerate(changes, 2):
        change()
        probed_now(environment)
        probed_now(environment)
        assert len(probes) == number


def test_a_system_that_hides_its_start_is_probed_each_time(
    probes: list[Mapping[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remembered_probe, "BOOT", tmp_path / "missing")
    for _ in range(2):
        probed_now({})
    assert len(probes) == 2


def test_the_probe_is_a_model_of_one_operation(tmp_path: Path) -> None:
    tflite.write(probe.square(), tmp_path / "probe.tflite")
    x, y = np.random.default_rng(0).standard_normal((2, *probe.SHAPE)).astype(np.float32)
    (product,) = Interpreter(tmp_path / "probe.tflite").run({"x": x, "y": y}).values()
    np.testing.assert_array_equal(product, x * y)


def test_a_driver_the_user_names_is_the_only_one_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    with pytest.raises(
        NoDelegate,
        match=r"the driver named by VK_ICD_FILENAMES: .*No adapters found\); name another .* or unset it\Z",
    ):
        adapter._find.__wrapped__()


def test_without_anything_it_says_what_to_install(bare: Path) -> None:
    with pytest.raises(
        NoDelegate, match=r"SwiftShader cannot be fetched: apt-get says “.*chromium-common.*install"
    ):
        adapter._find.__wrapped__()


def test_without_apt_it_says_so(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bare))
    with pytest.raises(NoDelegate, match="this system has no apt-get and no dpkg-deb"):
        swiftshader.install()


def test_a_cache_that_cannot_be_written(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "file").write_text("")
    monkeypatch.setenv("MSD_CACHE", str(bare / "file/cache"))
    with pytest.raises(NoDelegate, match=r"cannot be unpacked into .*: Not a directory"):
        swiftshader.install()


def test_three_files_are_unpacked_and_their_origin_noted(bare: Path) -> None:
    files = {swiftshader.LIBRARY: "a", swiftshader.ICD: "b", swiftshader.LOADER: "c", "chrome": "d"}
    folder = swiftshader.cache_folder()
    folder.parent.mkdir(parents=True)
    swiftshader._unpack(package(bare, files), folder)
    found = swiftshader.locate()
    assert found is not None
    assert found.origin == "SwiftShader of Debian's chromium-common 1.2-3"
    assert sorted(p.name for p in folder.iterdir()) == sorted({*files, "origin.txt"} - {"chrome"})


def test_a_package_without_the_files_is_refused(bare: Path) -> None:
    with pytest.raises(NoDelegate, match=r"chromium-common_1.2-3_all.deb holds no SwiftShader"):
        swiftshader._unpack(package(bare, {swiftshader.ICD: "b"}), bare / "made")


def test_an_installed_browser_is_used(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (swiftshader.LIBRARY, swiftshader.ICD, swiftshader.LOADER):
        (bare / name).write_text(json.dumps({}))
    monkeypatch.setattr(swiftshader, "BROWSERS", (str(bare),))
    found = swiftshader.locate()
    assert found is not None
    assert (found.folder, found.origin) == (bare, f"SwiftShader of the browser in {bare}")


def test_a_system_driver_needs_a_gpu(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "nvidia_icd.json").write_text("{}")
    (bare / "lvp_icd.x86_64.json").write_text("{}")
    monkeypatch.setattr(adapter, "ICD_FOLDERS", (str(bare),))
    monkeypatch.setattr(adapter, "_library_path", lambda: {"LD_LIBRARY_PATH": "/lib"})
    assert adapter._system_driver() is None
    monkeypatch.setattr(adapter, "DEVICES", ("null",))
    driver = adapter._system_driver()
    assert driver is not None
    assert driver.environment["VK_ICD_FILENAMES"] == str(bare / "nvidia_icd.json")


def test_the_runtime_can_be_made_to_say_its_partitions() -> None:
    """In this process: the level is found in the installed library and is verbose afterwards."""
    assert verbosity.log_partitions()


def test_a_symbol_that_is_not_there(tmp_path: Path) -> None:
    other = next(Path(np.__file__).parent.rglob("*.so"))
    assert verbosity._offset(other) is None
    assert verbosity._base(tmp_path / "libnone.so") is None


def test_a_gpu_whose_driver_fails_is_passed_over_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_icd.json").write_text("{}")
    monkeypatch.setattr(adapter, "ICD_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(adapter, "DEVICES", ("null",))
    for name in adapter.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    found = adapter._find.__wrapped__()
    assert "SwiftShader" in found.name
    (reason,) = found.passed_over
    assert reason.startswith("the system's Vulkan driver: ")
    assert reason.endswith("No adapters found")

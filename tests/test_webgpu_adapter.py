"""The adapter for our own kernels is one that an implementation of WebGPU takes, whatever LiteRT's takes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from msd.cli import msd
from msd.errors import BadConfig, NoDelegate
from msd.gpu.gpu_api import IMPLEMENTATIONS, GpuApi, usable_apis
from msd.run.runners import adapter, remembered_probe, swiftshader
from msd.run.runners.adapter import VARIABLES, Driver
from msd.run.runners.probe import ProbeResult
from msd.run.runners.runner import VulkanAdapter
from tests.webgpu_device import DAWN, LAVAPIPE, needs_lavapipe


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has found no adapter yet, and whose user names no driver."""
    adapter._find.cache_clear()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    adapter._find.cache_clear()


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Driver]:
    """A GPU's driver that only wgpu-native takes, lavapipe and SwiftShader; those that were probed."""
    probed: list[Driver] = []
    for name in ("gpu_icd.json", "lvp_icd.json"):
        (tmp_path / name).write_text("{}")

    def probe(environment: Mapping[str, str], api: GpuApi | None) -> ProbeResult:
        (file,) = [Path(file).name for file in environment["VK_ICD_FILENAMES"].split(os.pathsep)]
        probed.append(Driver(file, environment, api))
        if file == "gpu_icd.json" and api != "wgpu":
            raise NoDelegate("No adapters found")
        return ProbeResult(file, "GPU" if file == "gpu_icd.json" else "CPU", half_floats=True)

    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remembered_probe, "probe", probe)
    monkeypatch.setattr(adapter, "ICD_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(adapter, "DEVICES", ("null",))
    monkeypatch.setattr(adapter, "_library_path", dict)
    monkeypatch.setattr(swiftshader, "locate", lambda: swiftshader.SwiftShader(tmp_path, "SwiftShader"))
    return probed


def test_a_gpu_that_only_wgpu_native_takes_runs_our_kernels(drivers: list[Driver]) -> None:
    found = adapter.find("dawn", "wgpu")
    assert (found.name, found.api, found.software) == ("gpu_icd.json", "wgpu", False)
    assert found.passed_over == ("the system's Vulkan driver with Dawn: No adapters found",)
    assert adapter.find().name == swiftshader.ICD, "LiteRT's delegate does not run on it"


def test_what_is_asked_for_takes_another_driver_where_it_refuses_the_first(drivers: list[Driver]) -> None:
    found = adapter.find("dawn")
    assert (found.name, found.api) == ("lvp_icd.json", "dawn")


def test_software_is_lavapipe_for_our_kernels_and_swiftshader_for_litert(
    drivers: list[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "DEVICES", ())
    assert (adapter.find("wgpu").name, adapter.find().name) == ("lvp_icd.json", swiftshader.ICD)


def test_what_opens_the_gpu_ahead_is_what_was_found_before(drivers: list[Driver]) -> None:
    first = adapter.first_driver("dawn", "wgpu")
    assert first is not None
    assert first.api == "dawn", "nothing is remembered"
    adapter.find("dawn", "wgpu")
    then = adapter.first_driver("dawn", "wgpu")
    assert then is not None
    assert (then.origin, then.api) == (first.origin, "wgpu")


def test_each_implementation_is_probed_for_itself_and_once(drivers: list[Driver]) -> None:
    for _ in range(2):
        adapter._find.cache_clear()
        adapter.find("wgpu")
        adapter.find()
    assert [(each.origin, each.api) for each in drivers] == [
        ("gpu_icd.json", "wgpu"),
        ("gpu_icd.json", None),
        (swiftshader.ICD, None),
        ("gpu_icd.json", None),
    ]


def test_a_driver_that_is_not_there_is_refused_in_words_of_webgpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    with pytest.raises(
        NoDelegate,
        match=r"\AWebGPU runs on no Vulkan adapter here \(tried: the driver named by VK_ICD_FILENAMES with "
        r"wgpu-native: WebGPU finds no adapter here: No suitable graphics adapter found, vulkan [\w/ ]+\); "
        r"name another driver in VK_ICD_FILENAMES, or unset it\Z",
    ):
        adapter.find("wgpu")


def test_an_implementation_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msd.gpu.gpu_api.find_spec", lambda name: None if name == "wgpudawn" else name)
    assert usable_apis() == ("wgpu",)
    with pytest.raises(BadConfig, match=r"the package wgpudawn is not installed.*pip install 'msd\[dawn\]'"):
        usable_apis("dawn")
    monkeypatch.setattr("msd.gpu.gpu_api.find_spec", lambda name: None)
    with pytest.raises(BadConfig, match=r"the package wgpu is not installed.*pip install 'msd\[webgpu\]'"):
        usable_apis()


def test_all_that_are_installed_may_be_used() -> None:
    assert usable_apis() == (("dawn", "wgpu") if DAWN else ("wgpu",))
    assert {*usable_apis()} == {name for name, each in IMPLEMENTATIONS.items() if each.installed}


@needs_lavapipe
@pytest.mark.parametrize("named", [True, False])
def test_images_are_generated_on_lavapipe_and_it_is_called_software(
    named: bool, demo_int8: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named:
        monkeypatch.setenv("VK_ICD_FILENAMES", str(LAVAPIPE))
    words = ["--prompt", "fox", "--steps", "1", "--backend", "webgpu", "--precision", "fp16"]
    result = CliRunner().invoke(msd, ["generate", str(demo_int8), *words, "-o", str(tmp_path / "a.png")])
    assert result.exit_code == 0, result.output
    (said,) = [line for line in result.stderr.splitlines() if "software" in line]
    assert said.startswith("warning: no GPU that works was found: llvmpipe")
    assert "instead of fp16" not in result.stderr


@pytest.fixture
def commands(bundle_folder: Path, tmp_path: Path) -> dict[str, list[str]]:
    """The arguments with which each command runs networks on WebGPU."""
    prompts, bundle = tmp_path / "prompts.txt", str(bundle_folder)
    prompts.write_text("a fox\n")
    suite = tmp_path / "suite.toml"
    suite.write_text('[thresholds]\npsnr_least = 30.0\n\n[[picture]]\nname = "fox"\nprompt = "a fox"\n')
    backend = ["--backend", "webgpu"]
    return {
        "generate": [bundle, "--prompt", "fox", "--steps", "1", "-o", str(tmp_path / "a.png"), *backend],
        "bench": [bundle, *backend],
        "compare": [bundle, bundle, "--prompts", str(prompts), *backend],
        "regress": [str(suite), bundle, "--update", *backend],
        "kernels": [bundle],
    }


@pytest.mark.parametrize("command", ["generate", "bench", "compare", "regress", "kernels"])
def test_every_command_says_what_it_runs_on_before_it_does(
    command: str, commands: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the first network fails here, so that nothing runs."""
    found = VulkanAdapter(
        "a program",
        "CPU",
        "nowhere",
        True,
        {"VK_ICD_FILENAMES": "/nonexistent.json"},
        "wgpu",
        ("a GPU: broken",),
    )
    monkeypatch.setattr(adapter, "find", lambda *apis: found)
    result = CliRunner().invoke(msd, [command, *commands[command]])
    assert result.exit_code == 1, result.output
    said = result.stderr.splitlines()
    assert said[:2] == [
        "warning: passed over a GPU: broken",
        "warning: no GPU that works was found: a program runs in software, far slower than the CPU",
    ]


@pytest.mark.parametrize("command", ["generate", "bench", "compare", "regress", "kernels"])
def test_every_command_refuses_where_nothing_is_found(
    command: str, commands: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    result = CliRunner().invoke(msd, [command, *commands[command]])
    assert result.exit_code == 1
    (said,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert said.startswith("error: WebGPU runs on no Vulkan adapter here (tried: the driver named by ")

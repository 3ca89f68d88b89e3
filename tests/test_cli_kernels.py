"""`msd kernels` from its arguments to tables, files and exit codes, on SwiftShader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli import kernels, msd
from msd.errors import DelegateFailed, NoDelegate
from msd.files import schema
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Signature, Tensor
from msd.measure.profiling import run as profiling_run
from msd.measure.profiling.measure import NetworkFile
from msd.measure.profiling.result import KernelReport, NetworkCosts
from msd.run.runners import adapter
from msd.run.runners.backends.webgpu import WebGpuProcess
from tests.json_schema import violations
from tests.kernel_reports import ablation, network, winograd

pytestmark = pytest.mark.usefixtures("on_swiftshader")


def run(*arguments: object) -> Result:
    words = ["kernels", *map(str, arguments)]
    return CliRunner().invoke(msd, words, prog_name="msd", terminal_width=100)


@pytest.fixture
def pointwise(tmp_path: Path) -> Path:
    """A file of a product, a sum and a tanh."""
    x, y = Tensor("x", (1, 5, 3, 8)), Tensor("y", (1, 5, 3, 8))
    new = Build()
    result = new.TANH(new.ADD(new.MUL(x, y), y))
    result.name = "z"
    path = tmp_path / "unet.tflite"
    tflite.write(Model([Graph([x, y], [result], new.ops)]), path)
    return path


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing runs: what was measured of what; each network has the costs of its name."""
    seen: list[str] = []

    def costs(file: NetworkFile, *others: Any) -> NetworkCosts:
        seen.append(f"dispatches of {file.component}")
        return replace(network(), component=file.component)

    def noted(what: str, made: Any) -> Callable[..., Any]:
        def note(file: NetworkFile, *others: Any) -> Any:
            seen.append(f"{what} of {file.component}")
            return made

        return note

    monkeypatch.setattr(profiling_run, "measure_network", costs)
    monkeypatch.setattr(profiling_run, "ablate", noted("ablation", ablation()))
    monkeypatch.setattr(profiling_run, "measure_tiles", noted("tiles", winograd()))
    monkeypatch.setattr(profiling_run.BACKEND.__class__, "prepare", lambda self, conditions: conditions)
    return seen


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("kernels-help.txt", run("--help").output)


def test_every_dispatch_of_a_file_is_timed(pointwise: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("page.html", "trace.json", "out.json")}
    options = "--page", files["page.html"], "--trace", files["trace.json"], "-o", files["out.json"]
    result = run(pointwise, "--repeats", 2, *options)
    assert result.exit_code == 0, result.output
    assert "3 for 3 operations" in result.stdout
    said = " ".join(result.stdout.split())
    assert "is software: its times are those of a processor and say nothing of a GPU" in said
    assert ("computes in fp32 instead of fp16" in said, "requested" in said) == (True, False)
    made = json.loads(files["out.json"].read_text())
    assert list(violations(made, schema.document(KernelReport))) == []
    (costs,) = made["networks"]
    assert (costs["component"], costs["operations"], costs["software"]) == ("unet", 3, True)
    assert len(costs["run_seconds"]) == made["repeats"] == 2
    assert [each["operation"] for each in costs["dispatches"]] == ["MUL", "ADD", "TANH"]
    assert all(each["seconds"] > 0 for each in costs["dispatches"])
    values = 5 * 3 * 8
    assert [each["flops"] for each in costs["dispatches"]][:2] == [values, values]
    assert [each["bytes"] for each in costs["dispatches"]] == [3 * 4 * values, 3 * 4 * values, 2 * 4 * values]
    assert costs["tensor_bytes"] >= costs["least_tensor_bytes"] > 0
    assert costs["load_seconds"] > 0 < costs["first_seconds"]
    assert all(each["kernel"] in files["page.html"].read_text() for each in costs["dispatches"])
    events = json.loads(files["trace.json"].read_text())["traceEvents"]
    assert [event["args"]["operation"] for event in events if event["ph"] == "X"] == ["MUL", "ADD", "TANH"]


def test_json_is_all_that_stdout_has(pointwise: Path) -> None:
    result = run(pointwise, "--repeats", 1, "--json", "--precision", "fp32")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["networks"][0]["precision"] == "fp32"


@pytest.mark.usefixtures("measured")
def test_a_bundle_has_a_table_for_each_network(bundle_folder: Path) -> None:
    result = run(bundle_folder)
    assert result.exit_code == 0, result.output
    for name in ("text encoder", "U-Net", "VAE decoder"):
        assert result.stdout.lower().count(f"{name.lower()} on a <gpu>") == 2


def test_one_component_alone_is_measured(bundle_folder: Path, measured: list[str]) -> None:
    result = run(bundle_folder, "--component", "unet")
    assert result.exit_code == 0
    size = open_bundle(bundle_folder).manifest.configuration.all_sizes[0]
    said = " ".join(result.stdout.split())
    assert f"Measured: {bundle_folder / 'unet.tflite'}, for images of {size}" in said
    assert measured == ["dispatches of unet"]


def test_a_file_of_several_signatures_says_which_is_measured(
    pointwise: Path, tmp_path: Path, measured: list[str]
) -> None:
    model = tflite.read(pointwise)
    second = tflite.read(pointwise).main
    for graph, key in ((model.main, "64x64"), (second, "64x96")):
        inputs, outputs = ({t.name: t for t in tensors} for tensors in (graph.inputs, graph.outputs))
        graph.signatures = [Signature(key, inputs, outputs)]
    tflite.write(Model([model.main, second]), tmp_path / "two.tflite")
    result = run(tmp_path / "two.tflite")
    assert result.exit_code == 0, result.output
    assert "two.tflite has several signatures: 64x64 is measured, 64x96 left out" in result.stderr
    assert "several signatures" not in run(pointwise).stderr


def test_ablation_and_tiles_are_measured_instead(bundle_folder: Path, measured: list[str]) -> None:
    result = run(bundle_folder, "--component", "unet", "--ablation", "--winograd")
    assert result.exit_code == 0, result.output
    assert measured == ["ablation of unet", "tiles of unet"]
    assert "counted for adreno-740" in result.stdout
    assert "The baseline has tiled matrix products" in result.stdout


@pytest.mark.usefixtures("measured")
def test_files_are_not_overwritten_without_force(bundle_folder: Path, tmp_path: Path) -> None:
    for option, name in (("-o", "out.json"), ("--page", "page.html"), ("--trace", "trace.json")):
        path = tmp_path / name
        path.write_text("mine")
        result = run(bundle_folder, option, path)
        assert (result.exit_code, path.read_text()) == (1, "mine")
        assert "--force replaces it" in result.stderr
        assert run(bundle_folder, option, path, "--force").exit_code == 0
        assert path.read_text() != "mine"


def test_one_file_is_not_written_twice(bundle_folder: Path, tmp_path: Path) -> None:
    words = [word for option in ("--page", "--trace") for word in (option, tmp_path / "a.json")]
    result = run(bundle_folder, *words)
    assert (result.exit_code, "a.json is given for two different files" in result.stderr) == (2, True)


@pytest.mark.usefixtures("measured")
def test_tables_are_written_as_markdown(bundle_folder: Path, tmp_path: Path) -> None:
    assert run(bundle_folder, "--component", "unet", "-o", tmp_path / "out.MD").exit_code == 0
    assert "| kind of kernel | dispatches |" in (tmp_path / "out.MD").read_text()


@pytest.mark.usefixtures("measured")
def test_a_file_that_cannot_be_written_keeps_no_other_from_it(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full meanwhile."""
    monkeypatch.setattr(kernels, "require_writable", lambda path, force: None)
    output, page, trace = tmp_path / "none" / "a.json", tmp_path / "a.html", tmp_path / "trace.json"
    result = run(bundle_folder, "-o", output, "--page", page, "--trace", trace)
    assert (result.exit_code, f"error: {output} cannot be written" in result.stderr) == (1, True)
    assert (page.is_file(), trace.is_file()) == (True, True)


@pytest.mark.parametrize("option", ["--ablation", "--winograd"])
def test_a_trace_needs_dispatches(pointwise: Path, tmp_path: Path, option: str) -> None:
    result = run(pointwise, option, "--trace", tmp_path / "trace.json")
    assert result.exit_code == 2
    assert "--trace shows dispatches, which --ablation and --winograd do not time" in result.stderr


def test_a_file_has_no_components(pointwise: Path) -> None:
    result = run(pointwise, "--component", "unet")
    assert result.exit_code == 2
    assert "choose from a bundle, not from a file" in result.stderr


def test_an_unknown_device_is_refused(pointwise: Path) -> None:
    result = run(pointwise, "--ablation", "--device", "abacus")
    assert result.exit_code == 2
    assert "no device is called 'abacus'" in result.stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [(("--device", "powervr"), "without --ablation"), (("--force",), "without --output, --page and --trace")],
)
def test_what_does_nothing_is_refused(pointwise: Path, option: tuple[str, ...], words: str) -> None:
    result = run(pointwise, *option)
    assert (result.exit_code, f"{option[0]} does nothing {words}." in result.stderr) == (2, True)


def test_a_device_without_figures_is_refused(pointwise: Path) -> None:
    result = run(pointwise, "--ablation", "--device", "powervr")
    assert result.exit_code == 1
    assert "the description of powervr does not say all of memory_bandwidth" in result.stderr


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.tflite").write_text("no model")
    result = run(tmp_path / "words.tflite")
    assert result.exit_code == 1
    assert "words.tflite" in result.stderr
    assert run(tmp_path / "none.tflite").exit_code == 1


def test_without_an_adapter_it_fails_with_a_sentence(
    pointwise: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*apis: str) -> None:
        raise NoDelegate("there is no GPU here")

    monkeypatch.setattr(adapter, "find", find)
    result = run(pointwise)
    assert result.exit_code == 1
    assert "error: there is no GPU here\n" in result.stderr


def test_a_gpu_without_timestamps_fails_with_a_sentence(
    pointwise: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = WebGpuProcess.compiled
    assert isinstance(compiled, property)

    def blind(process: WebGpuProcess) -> Any:
        assert compiled.fget is not None
        return replace(compiled.fget(process), timestamps=False)

    monkeypatch.setattr(WebGpuProcess, "compiled", property(blind))
    result = run(pointwise)
    assert result.exit_code == 1
    assert "has no timestamp queries, so its dispatches cannot be timed" in result.stderr


def test_a_network_without_3x3_convolutions_has_no_tiles(pointwise: Path) -> None:
    result = run(pointwise, "--winograd")
    assert result.exit_code == 1
    assert "there is no 3x3 convolution without stride in unet" in result.stderr


def test_a_bundle_without_a_network_for_the_gpu_is_refused(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msd.bundle import Bundle

    component = Bundle.component
    monkeypatch.setattr(Bundle, "component", lambda self, name: replace(component(self, name), runs_on="cpu"))
    result = run(bundle_folder, "--component", "unet")
    assert result.exit_code == 1
    assert "unet is for the CPU and is left out" in result.stderr
    assert "has no network for the GPU among unet" in result.stderr


def test_a_lost_gpu_is_a_sentence(pointwise: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: Any) -> NetworkCosts:
        raise DelegateFailed("WebGPU was lost with unet.tflite: its process crashed with SIGSEGV")

    monkeypatch.setattr(profiling_run, "measure_network", lost)
    result = run(pointwise)
    assert result.exit_code == 1
    assert "error: WebGPU was lost with unet.tflite" in result.stderr


def test_all_stages_of_an_ablation_run(pointwise: Path) -> None:
    result = run(pointwise, "--ablation", "--repeats", 2, "--json")
    assert result.exit_code == 0, result.output
    (made,) = json.loads(result.stdout)["ablations"]
    assert (made["device"], made["software"]) == ("adreno-740", True)
    assert [len(row["run_seconds"]) for row in made["rows"]] == [2] * 6
    values = 5 * 3 * 8
    for row in made["rows"]:
        assert row["bytes"] == 8 * 4 * values
        narrowing = 2 * (4 + 2) * values  # both inputs are float32
        counted = (7 * 2 + 4) * values + narrowing  # f16, but for the output
        assert row["counted"]["bytes"] == counted
        assert row["counted"]["seconds"] == pytest.approx(counted / 67.2e9)


@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt(), 130), (DelegateFailed("it is lost"), 1)])
def test_what_ends_it_loses_no_network(
    problem: BaseException,
    code: int,
    bundle_folder: Path,
    measured: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = profiling_run.measure_network

    def until_the_decoder(file: NetworkFile, *others: Any) -> NetworkCosts:
        if file.component == "vae_decoder":
            raise problem
        return costs(file, *others)

    monkeypatch.setattr(profiling_run, "measure_network", until_the_decoder)
    output = tmp_path / "kernels.json"
    result = run(bundle_folder, "--json", "-o", output)
    assert (result.exit_code, result.stdout, output.exists()) == (code, "", False)
    table, _, rest = result.stderr.partition("stopped: ")
    assert [
        f"{title} on a <gpu>".lower() in table.lower() for title in ("text encoder", "U-Net", "VAE decoder")
    ] == [True, True, False], table
    assert "nothing is written" in rest


def test_nothing_is_said_of_networks_of_which_none_is_measured(
    bundle_folder: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling_run, "measure_tiles", lambda *ignored: None)
    result = run(bundle_folder, "--winograd")
    assert (result.exit_code, "stopped" in result.stderr) == (1, False)

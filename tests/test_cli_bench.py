"""`msd bench` from its arguments to tables, JSON and exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.cli import bench as cli
from msd.cli import msd
from msd.errors import DelegateFailed, NoDelegate
from msd.files import schema
from msd.measure.bench import run as bench_run
from msd.measure.bench.result import Benchmark, Measurement
from msd.run.runners import adapter
from msd.run.runtime.execution import EXECUTIONS
from tests.app_bundles import write_bundle
from tests.json_schema import violations
from tests.test_bench import measurement
from tests.test_bench_android import settings, stand_in

ROOT = Path(__file__).parent.parent
SECONDS = {"text_encoder": 0.25, "unet": 2.0, "vae_decoder": 1.0}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(msd, ["bench", *map(str, arguments)], prog_name="msd", terminal_width=100)


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run: every network takes its `SECONDS`, in the second bundle a tenth more."""

    def measured(bundles: Any, component: str, place: Any, effort: Any, told: Any) -> list[Measurement]:
        factors = enumerate(bundles)
        return [
            measurement(component, SECONDS[component] * (1 + 0.1 * i), place.backend.name) for i, _ in factors
        ]

    monkeypatch.setattr(bench_run, "measure", measured)


def test_its_choices_are_what_there_is() -> None:
    assert EXECUTIONS == cli.EXECUTIONS


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("bench-help.txt", run("--help").output)


def test_it_measures_and_says_so_as_json(bundle_folder: Path) -> None:
    result = run(bundle_folder, "--json", "--repeats", 2, "--min-seconds", 0, "--draw", 1, "--steps", 5)
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    (bundle,) = made["bundles"]
    assert [m["component"] for m in bundle["measurements"]] == ["text_encoder", "unet", "vae_decoder"]
    assert all(len(m["timings"]["runs"]) == 2 for m in bundle["measurements"])
    (picture,) = bundle["wholes"]
    assert (picture["steps"], picture["drawn"]["steps"]) == (5, 1)
    assert made["machine"]["load"] >= 0
    assert list(violations(made, schema.document(Benchmark))) == []


@pytest.mark.usefixtures("clockwork")
def test_several_backends_make_one_table(bundle_folder: Path) -> None:
    backends = "--backend", "litert-cpu", "--backend", "litert-gpu"
    result = run(bundle_folder, *backends, "--draw", 0)
    assert result.exit_code == 0, result.output
    table, _, picture = result.stdout.partition("an image")
    assert [table.count(name) for name in ("U-Net", "litert-cpu", "litert-gpu")] == [2, 3, 3]
    assert picture.count("81.5 s") == 2  # 2 · 0.25 + 20 · 2 · 2 + 1


@pytest.mark.usefixtures("clockwork")
def test_one_component_alone_makes_no_picture(bundle_folder: Path) -> None:
    result = run(bundle_folder, "--component", "unet", "--json")
    (bundle,) = json.loads(result.stdout)["bundles"]
    assert ([m["component"] for m in bundle["measurements"]], bundle["wholes"]) == (["unet"], [])


@pytest.mark.usefixtures("clockwork")
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--component unet --steps 5", 2, "--steps does nothing where not all networks of an image are"),
        ("--steps 1001", 1, "error: 1001 steps are impossible"),
        ("--force", 2, "--force does nothing without --output."),
        ("--draw 1001", 1, "error: 1001 steps are impossible"),
        ("--backend litert-gpu --threads 2", 2, "--threads does nothing on litert-gpu."),
        ("--backend litert-gpu --dynamic-range", 2, "--dynamic-range does nothing on litert-gpu."),
        ("--backend android --benchmark-binary m --draw 3", 2, "--draw does nothing on android"),
    ],
)
def test_what_does_nothing_for_the_bundle_is_refused_before_anything_is_measured(
    options: str, code: int, message: str, bundle_folder: Path
) -> None:
    result = run(bundle_folder, *options.split())
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in " ".join(result.stderr.split())
    assert "stopped" not in result.stderr


@pytest.mark.usefixtures("clockwork")
def test_all_networks_by_name_make_an_images_time(bundle_folder: Path) -> None:
    result = run(bundle_folder, *(word for name in SECONDS for word in ("--component", name)), "--steps", 5)
    assert result.exit_code == 0, result.output
    assert "21.5 s" in result.stdout  # 2 · 0.25 + 5 · 2 · 2 + 1


@pytest.mark.usefixtures("clockwork")
def test_that_no_image_is_generated_is_said(bundle_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "part")
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["components"]["vae_decoder"]
    manifest["calls"] = [call for call in manifest["calls"] if call["component"] != "vae_decoder"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    result = run(folder)
    assert (result.exit_code, "an image" in result.stdout) == (0, False)
    assert f"note: no image is generated: {folder} has no vae_decoder" in result.stderr


@pytest.mark.usefixtures("clockwork")
def test_networks_that_only_the_other_bundle_has_are_measured_and_said(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And both have an image's time, though one has networks that only some images run."""
    monkeypatch.setitem(SECONDS, "vae_encoder", 9.0)
    other = write_bundle(tmp_path / "other", encoder=True)
    result = run(bundle_folder, "--compare", other, "--draw", 0)
    assert result.exit_code == 0, result.output
    assert "note: vae_encoder on litert-cpu was measured of one bundle alone" in result.stderr
    assert "image, computed" in result.stdout


@pytest.mark.usefixtures("clockwork")
@pytest.mark.parametrize(("limit", "code"), [(None, 0), (1.0, 0), (0.8, 3)])
def test_what_is_slower_than_allowed_ends_with_3(limit: float | None, code: int, bundle_folder: Path) -> None:
    more = [] if limit is None else ["--fail-slower", limit]
    result = run(bundle_folder, "--compare", bundle_folder, "--component", "unet", *more)
    assert result.exit_code == code, result.output
    assert "0.91" in result.stdout
    assert ("unet on litert-cpu takes 0.91 times as long (allowed: 0.8)" in result.stderr) == (code == 3)


@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt(), 130), (NoDelegate("no adapter"), 1)])
def test_what_ends_it_loses_no_measurement(
    problem: BaseException,
    code: int,
    clockwork: None,
    bundle_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = bench_run.measure

    def until_the_decoder(bundles: Any, component: str, *rest: Any) -> list[Measurement]:
        if component == "vae_decoder":
            raise problem
        return measured(bundles, component, *rest)

    monkeypatch.setattr(bench_run, "measure", until_the_decoder)
    output = tmp_path / "bench.json"
    result = run(bundle_folder, "--json", "-o", output)
    assert (result.exit_code, result.stdout, output.exists()) == (code, "", False)
    table, _, rest = result.stderr.partition("stopped: ")
    assert f"{bundle_folder}, " in table
    assert "250 ms" in table
    assert "2.00 s" in table
    assert "VAE decoder" not in table
    assert "nothing is written" in rest


def test_nothing_is_said_of_a_benchmark_that_ends_before_its_first_measurement(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*ignored: Any) -> list[Measurement]:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_run, "measure", ended)
    result = run(bundle_folder)
    assert (result.exit_code, "stopped" in result.stderr) == (130, False)


@pytest.mark.usefixtures("clockwork")
def test_a_result_that_cannot_be_written_is_still_printed(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, measured = tmp_path / "bench.json", bench_run.measure

    def written_meanwhile(*arguments: Any) -> list[Measurement]:
        output.write_text("mine")
        return measured(*arguments)

    monkeypatch.setattr(bench_run, "measure", written_meanwhile)
    result = run(bundle_folder, "--draw", 0, "--json", "-o", output)
    assert (result.exit_code, output.read_text()) == (1, "mine")
    assert len(json.loads(result.stdout)["bundles"][0]["measurements"]) == 3


@pytest.mark.usefixtures("clockwork")
def test_a_result_is_written_and_not_overwritten(bundle_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    assert run(bundle_folder, "--draw", 0, "-o", output).exit_code == 0
    assert json.loads(output.read_text())["format"] == 1
    before = output.read_text()
    result = run(bundle_folder, "--draw", 0, "-o", output)
    assert (result.exit_code, output.read_text()) == (1, before)
    assert "--force replaces it" in result.stderr
    assert run(bundle_folder, "--draw", 0, "-o", output, "--force").exit_code == 0


@pytest.mark.usefixtures("clockwork")
def test_tables_are_written_as_markdown(bundle_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "bench.MD"
    assert run(bundle_folder, "--draw", 0, "-o", output).exit_code == 0
    assert "| U-Net | litert-cpu | CPU, 2 threads, fp32 |" in output.read_text()


def test_what_is_refused_is_said_and_the_rest_is_measured(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measured(bundles: Any, component: str, place: Any, effort: Any, told: Any) -> list[Measurement]:
        if component == "unet":
            raise DelegateFailed("unet.tflite is refused by litert-cpu: NO_SUCH_OP")
        return [measurement(component, 1.0) for _ in bundles]

    monkeypatch.setattr(bench_run, "measure", measured)
    output = tmp_path / "bench.json"
    result = run(bundle_folder, "-o", output)
    assert result.exit_code == 1
    assert "error: unet.tflite is refused by litert-cpu: NO_SUCH_OP" in result.stderr
    (bundle,) = json.loads(output.read_text())["bundles"]
    assert [m["component"] for m in bundle["measurements"]] == ["text_encoder", "vae_decoder"]
    assert (bundle["refusals"][0]["component"], bundle["wholes"]) == ("unet", [])


def test_of_two_bundles_one_may_be_refused(
    bundle_folder: Path, batch_two_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(bundles: Any, component: str, place: Any, effort: Any, told: Any) -> list[Measurement]:
        if any(bundle.folder == batch_two_folder for bundle in bundles):
            raise DelegateFailed("refused")
        return [measurement(component, 1.0)]

    monkeypatch.setattr(bench_run, "measure", measured)
    result = run(bundle_folder, "--compare", batch_two_folder, "--component", "unet", "--json")
    first, second = json.loads(result.stdout)["bundles"]
    assert result.exit_code == 1
    assert (len(first["measurements"]), len(first["refusals"])) == (1, 0)
    assert (len(second["measurements"]), len(second["refusals"])) == (0, 1)


def test_a_missing_adapter_is_a_sentence(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> None:
        raise NoDelegate("the GPU delegate runs on no Vulkan adapter here")

    monkeypatch.setattr(adapter, "find", find)
    result = run(bundle_folder, "--backend", "litert-gpu")
    assert (result.exit_code, result.stderr.strip()) == (
        1, "error: the GPU delegate runs on no Vulkan adapter here"
    )  # fmt: skip


def test_a_runtime_that_is_not_installed_is_a_sentence(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msd.run.runners.backend.find_spec", lambda name: None)
    result = run(bundle_folder, "--backend", "tflite-runtime")
    assert result.exit_code == 1
    assert "the package tflite-runtime is not installed" in result.stderr


@pytest.fixture
def corrupted(bundle_folder: Path, tmp_path: Path) -> Path:
    """A bundle with one byte of its U-Net changed."""
    folder = tmp_path / "corrupted"
    shutil.copytree(bundle_folder, folder)
    content = bytearray((folder / "unet.tflite").read_bytes())
    content[-1] ^= 1
    (folder / "unet.tflite").write_bytes(content)
    return folder


@pytest.mark.usefixtures("clockwork")
def test_a_corrupted_bundle_is_refused_unless_unasked(corrupted: Path) -> None:
    result = run(corrupted)
    assert result.exit_code == 1
    assert "has another SHA-256 than manifest.json says" in result.stderr
    assert run(corrupted, "--no-verify", "--draw", 0).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "npu"], "'npu' is not one of"),
        (["--backend", "android"], "needs --benchmark-binary"),
        (["--fail-slower", "1.1"], "--fail-slower compares with --compare OTHER"),
        (["--fail-slower", "0"], "not in the range"),
        (["--component", "vae"], "is not one of"),
        (["--repeats", "0"], "not in the range"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], words: str, bundle_folder: Path) -> None:
    result = run(bundle_folder, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_folder_that_is_no_bundle_is_a_sentence(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: cannot read {tmp_path}/manifest.json")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--precision", "fp16"], "--precision does nothing on litert-cpu"),
        (["--gpu-api", "dawn"], "--gpu-api does nothing on litert-cpu"),
        (["--backend", "android", "--benchmark-binary", "b", "--threads", "2"], "--threads does nothing on"),
        (["--component", "unet", "--draw", "1"], "--draw does nothing with --component"),
        (["--component", "unet", "--execution", "resident"], "--execution does nothing with --component"),
        (["--draw", "0", "--execution", "resident"], "--execution does nothing with --draw 0"),
        (["--min-seconds", "3", "--max-seconds", "2"], "--min-seconds 3 is more than --max-seconds 2"),
        (["--benchmark-binary", "b"], "--benchmark-binary does nothing without --backend android"),
        (["-o", "bench.csv"], "bench.csv ends in '.csv'; .json and .md can be written"),
    ],
)
def test_what_would_do_nothing_is_wrong_usage(arguments: list[str], why: str, bundle_folder: Path) -> None:
    result = run(bundle_folder, *arguments)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.split())


def test_a_phone_is_measured_over_adb(bundle_folder: Path, tmp_path: Path) -> None:
    program, binary = stand_in(tmp_path), settings(tmp_path).binary
    phone = "--backend", "android", "--benchmark-binary", binary, "--adb", program
    result = run(bundle_folder, *phone, "--precision", "fp16", "--json")
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["phone"]["GPU"] == "Adreno (TM) 740"
    (bundle,) = made["bundles"]
    assert [m["timings"]["median"] for m in bundle["measurements"]] == [0.4309] * 3
    assert bundle["wholes"][0]["drawn"] is None


FOREIGN = ("tensorflow", "keras", "keras_cv", "h5py", "matplotlib", "safetensors", "torch")


def test_it_needs_no_tensorflow(bundle_folder: Path, tmp_path: Path) -> None:
    for name in FOREIGN:
        (tmp_path / f"{name}.py").write_text("raise ImportError('is not to be imported')")
    arguments = ["bench", bundle_folder, "--repeats", "1", "--min-seconds", "0", "--draw", "1", "--json"]
    command = [sys.executable, "-c", "from msd.cli import msd; msd()", *map(str, arguments)]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["bundles"][0]["measurements"]) == 3


@pytest.mark.usefixtures("clockwork")
@pytest.mark.parametrize("backends", [("litert-cpu", "litert-gpu"), ("litert-gpu", "litert-cpu")])
def test_a_file_for_the_cpu_is_measured_there_once(
    backends: tuple[str, str], bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(bundle_folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["components"]["text_encoder"]["runs_on"] = "cpu"
    (folder / "manifest.json").write_text(json.dumps(manifest))

    def measured(bundles: Any, component: str, place: Any, effort: Any, told: Any) -> list[Measurement]:
        return [
            measurement(component, SECONDS[component], place.on(b.component(component).runs_on).backend.name)
            for b in bundles
        ]

    monkeypatch.setattr(bench_run, "measure", measured)
    result = run(folder, "--backend", backends[0], "--backend", backends[1], "--draw", 0, "--json")
    (bundle,) = json.loads(result.stdout)["bundles"]
    encoders = [m["backend"] for m in bundle["measurements"] if m["component"] == "text_encoder"]
    assert (encoders, len(bundle["measurements"]), len(bundle["wholes"])) == (["litert-cpu"], 5, 2)

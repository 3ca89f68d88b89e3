"""`msd export-android` and `msd export-files`, as they are called."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli import msd
from msd.errors import DelegateFailed
from msd.export.app import manifest as app
from msd.export.app import model_files
from msd.measure.report.report import FileReport, Report, dump_report
from tests.app_bundles import write_bundle
from tests.expected_images import write_expected
from tests.verdicts import whole_verdict


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundle") / "one", embeddings={"timestep_embedding": 8})


def run(*arguments: object) -> Result:
    return CliRunner().invoke(msd, [str(argument) for argument in arguments])


def test_android_is_exported_with_every_option(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = "--delivery ai-pack --package com.example.painter --min-ram 7.5 --steps 20 --steps 6"
    drawing = "--scheduler lcm --guidance 1 --licence MIT --json"
    result = run("export-android", folder, "-o", out, *options.split(), *drawing.split())
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    networks = ["text_encoder.tflite", "unet.tflite", "vae_decoder.tflite"]
    assert (said["output"], said["packs"]) == (str(out), {"sd-models": networks})
    bundle = open_bundle(folder)
    assert said["model"] == bundle.model_hash
    written = app.load_manifest(out / "sd-models/src/main/assets/sd_models#group_enough_memory" / app.NAME)
    assert written == app.describe(bundle, (20, 6), "lcm", 1.0, licence="MIT", min_memory=6_562_500_000)
    assert 'ram-min-bytes="6562500000"' in (out / "app/device-targeting.xml").read_text()


def test_a_report_s_figures_are_in_the_manifest(folder: Path, tmp_path: Path) -> None:
    unet, report = open_bundle(folder).component("unet"), tmp_path / "report.json"
    on_gpu = whole_verdict(adapter="Mali", precision="fp16", operations=9, delegated=9, psnr_db=51.5)
    file = FileReport(unet.file, unet.sha256, 1, 9, {}, (), on_gpu)
    report.write_text(dump_report(Report("1", (file,))))
    for command, place in (
        ("export-android", "sd-models/src/main/assets/sd_models"),
        ("export-files", "SDModels"),
    ):
        result = run(command, folder, "-o", tmp_path / command, "--report", report)
        assert result.exit_code == 0, result.output
        (found,) = app.load_manifest(tmp_path / command / place / app.NAME).delegation
        assert (found.role, found.adapter, found.delegated, found.psnr_db) == ("unet", "Mali", 9, 51.5)


def test_a_report_that_is_none_or_of_other_files_is_refused(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("{")
    result = run("export-android", folder, "-o", tmp_path / "out", "--report", report)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    report.write_text(dump_report(Report("1", ())))
    result = run("export-android", folder, "-o", tmp_path / "out", "--report", report)
    assert result.exit_code == 1
    assert "the report has no run of a file of" in result.stderr
    assert not (tmp_path / "out").exists()


def refuse_the_decoder(path: Path) -> None:
    if path.name == "vae_decoder.tflite":
        raise DelegateFailed(f"The GPU delegate refuses {path}")


def test_nothing_is_copied_of_a_bundle_with_a_file_that_the_delegate_refuses(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[Path] = []
    monkeypatch.setattr(model_files, "require_supported", refuse_the_decoder)
    monkeypatch.setattr(model_files, "copy_verified", lambda path, *_: copied.append(path))
    result = run("export-android", folder, "-o", tmp_path / "out")
    assert (result.exit_code, copied, [*tmp_path.iterdir()]) == (1, [], [])
    assert f"The GPU delegate refuses {folder / 'vae_decoder.tflite'}" in result.stderr


def test_a_whole_project_is_exported_with_the_image_that_a_phone_should_generate(
    folder: Path, tmp_path: Path
) -> None:
    out, bundle = tmp_path / "out", open_bundle(folder)
    expected = write_expected(tmp_path / "expected.png", bundle)
    result = run("export-android", folder, "-o", out, "--app", "--expect", expected, "--steps", 2)
    assert result.exit_code == 0, result.output
    assert "README.md says in five steps how to bring it to a phone" in result.stderr
    assert (out / "settings.gradle.kts").is_file()
    resources = out / "app/src/androidTest/resources"
    assert (resources / "expected.png").read_bytes() == expected.read_bytes()
    assert json.loads((resources / "expected.json").read_text())["prompt"] == "a red circle"
    refused = run("export-android", folder, "-o", tmp_path / "no", "--expect", expected, "--steps", 3)
    assert refused.exit_code == 1
    assert "has 2 steps and the app 3; export with --steps 2" in refused.stderr
    assert not (tmp_path / "no").exists()


def test_talk_goes_to_stderr_and_an_unknown_licence_is_said(folder: Path, tmp_path: Path) -> None:
    result = run("export-android", folder, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "the licence of the weights is unknown; --licence puts it into NOTICE" in result.stderr
    assert "README.md says in five steps how to include it" in result.stderr


def test_other_apps_get_the_same_files_and_manifest(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("export-files", folder, "-o", out, "--steps", 6, "--guidance", 3)
    assert result.exit_code == 0, result.output
    models = out / "SDModels"
    assert app.load_manifest(models / app.NAME) == app.describe(open_bundle(folder), (6,), guidance=3.0)
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=models, check=False)
    assert done.returncode == 0
    assert "the licence of the weights is unknown; --licence puts it into README.md" in result.stderr
    text = (out / "README.md").read_text()
    assert "on the GPU.\n" in text
    assert "48×32 pixels" in text
    assert "unknown; the checkpoint does not say" in text
    assert "$" not in text
    again = run("export-files", folder, "-o", out)
    assert (again.exit_code, "is an earlier export" in again.stderr) == (1, True)
    assert run("export-files", folder, "-o", out, "--force").exit_code == 0


def test_what_the_delegate_refuses_of_other_apps_files_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written all the same: an app of the user's own may run them on the CPU."""

    monkeypatch.setattr(model_files, "require_supported", refuse_the_decoder)
    result = run("export-files", folder, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert f"warning: The GPU delegate refuses {folder / 'vae_decoder.tflite'}\n" in result.stderr
    text = (tmp_path / "out/README.md").read_text()
    assert "on the GPU, but for vae_decoder.tflite, which the GPU delegate refuses." in text


def test_other_apps_files_are_told_to_programs(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("export-files", folder, "-o", out, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["output"], said["model"]) == (str(out), open_bundle(folder).model_hash)
    assert {"SDModels/unet.tflite", "SDModels/vae_decoder.tflite"} < {*said["files"]}
    assert all((out / name).is_file() for name in said["files"])


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--delivery", "pigeon"], 2, "'pigeon' is not one of"),
        (["--min-ram", "0"], 2, "0.0 is not in the range"),
        (["--steps", "0"], 2, "0 is not in the range"),
        (["--package", "painter"], 2, "Error: 'painter' is not an app's package"),
        (["--package", "com.in.sd"], 2, "Error: com.in.sd has 'in' in it, a keyword of Kotlin or Java"),
        (["--package", "dev.msd"], 2, "Error: dev.msd is the package of the library's own classes"),
        (["--name", ""], 2, "Error: '' is not an app's name; it should be some words on one line"),
        (["--min-ram", "8"], 1, "error: only AI packs select devices by memory"),
        (["--steps", "1001"], 1, "can take 1 to 1000"),
        (["--scheduler", "pndn"], 2, "no scheduler is called 'pndn'"),
        (["--scheduler", "pndm+lu"], 2, "the scheduler pndm has no lu sigmas"),
    ],
)
def test_refusals_are_one_line(
    options: list[str], code: int, message: str, folder: Path, tmp_path: Path
) -> None:
    result = run("export-android", folder, "-o", tmp_path / "out", *options)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["export-android", "export-files", "export-web"])
def test_a_licence_without_words_is_refused(command: str, folder: Path, tmp_path: Path) -> None:
    """It would be said in place of that the licence is unknown."""
    result = run(command, folder, "-o", tmp_path / "out", "--licence", " ")
    assert (result.exit_code, "--licence is empty; leave it out" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


def test_commands_that_are_said_quote_a_folder_with_a_space(folder: Path, tmp_path: Path) -> None:
    model = shutil.copytree(folder, tmp_path / "my model")
    said = run("serve", model).stderr
    assert f"first msd export-web '{model}' -o '{model}-page', then msd serve '{model}-page'" in said
    assert f"msd generate '{model}' -p PROMPT runs it" in run("convert", model, "-o", tmp_path / "x").stderr


@pytest.mark.parametrize("command", ["export-android", "export-files", "export-ios"])
def test_a_folder_that_is_no_bundle_is_refused(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path, "-o", tmp_path / "out")
    assert (result.exit_code, "msd-convert writes one" in result.stderr) == (1, True)

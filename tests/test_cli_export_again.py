"""What the export commands say of a model's steps and name, and keep of the export that they replace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.bundle import Bundle, open_bundle
from msd.cli import msd
from msd.export.app.manifest import DEMO_NAME, describe
from msd.models.demo.least_steps import LEAST_STEPS, UNET_SHA256
from tests.app_bundles import write_bundle

LEAST = LEAST_STEPS[UNET_SHA256]
WARNING = f"with fewer than {LEAST} steps the demo may give other colours than asked"
WEB = "--no-expected"


def run(command: str, bundle: Path, out: Path, *words: str) -> Result:
    extra = [WEB] if command == "export-web" else []
    result = CliRunner().invoke(msd, [command, str(bundle), "-o", str(out), *extra, *words])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundle") / "painter")


def note(out: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((out / "sd-export.json").read_text())
    return read


def test_another_export_keeps_the_package_name_and_licence(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = "--package", "com.example.painter", "--name", "Painter", "--licence", "MIT"
    assert "as the earlier export" not in run("export-android", bundle, out, *words).stderr
    again = run("export-android", bundle, out, "--force", "--name", "Draw").stderr
    assert f"--package 'com.example.painter', as the earlier export in {out}; --package changes it" in again
    assert "--licence 'MIT', as the earlier export" in again
    assert "--name 'Painter'" not in again
    assert 'applicationId = "com.example.painter"' in (out / "app/build.gradle.kts").read_text()
    assert '<string name="app_name">Draw<' in (out / "app/src/main/res/values/strings.xml").read_text()
    assert "Licence of the weights: MIT" in (out / "NOTICE").read_text()
    assert note(out)["settings"] == {"package": "com.example.painter", "name": "Draw", "licence": "MIT"}


def test_an_export_elsewhere_or_of_another_platform_keeps_nothing(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("export-files", bundle, out, "--licence", "MIT")
    said = run("export-android", bundle, out, "--force").stderr
    assert "as the earlier export" not in said
    assert note(out)["settings"] == {"package": "com.example.sd", "name": "Stable Diffusion"}


def test_files_keep_their_licence(bundle: Path, tmp_path: Path) -> None:
    run("export-files", bundle, tmp_path / "out", "--licence", "MIT")
    assert "--licence 'MIT', as the" in run("export-files", bundle, tmp_path / "out", "--force").stderr
    assert note(tmp_path / "out")["settings"] == {"licence": "MIT"}


def test_a_package_in_a_note_that_no_app_can_have_is_refused(bundle: Path, tmp_path: Path) -> None:
    run("export-android", bundle, tmp_path / "out")
    path = tmp_path / "out/sd-export.json"
    path.write_text(json.dumps(note(tmp_path / "out") | {"settings": {"package": '"; evil'}}))
    result = CliRunner().invoke(msd, ["export-android", str(bundle), "-o", str(tmp_path / "out"), "--force"])
    assert result.exit_code == 2
    assert "is not an app's package" in result.stderr


@pytest.mark.parametrize("command", ["export-android", "export-files", "export-web"])
def test_fewer_steps_than_the_demo_needs_are_remarked_on(
    command: str, demo_int8: Path, tmp_path: Path
) -> None:
    assert WARNING in run(command, demo_int8, tmp_path / "few", "--steps", "20", "--steps", "3").stderr
    assert WARNING not in run(command, demo_int8, tmp_path / "own").stderr


def test_the_page_offers_no_fewer_steps_than_the_demo_needs(demo_int8: Path, tmp_path: Path) -> None:
    run("export-web", demo_int8, tmp_path / "site")
    manifest = json.loads((tmp_path / "site/model/sd-manifest.json").read_text())
    assert [schedule["count"] for schedule in manifest["schedules"]] == [20, LEAST, 30]


def test_a_checkpoint_whose_name_says_nothing_is_called_after_its_bundle(
    bundle: Path, demo_int8: Path, tmp_path: Path
) -> None:
    assert describe(open_bundle(demo_int8)).weights.name == DEMO_NAME
    for name, wanted in ("checkpoint", "painter"), ("Model", "painter"), ("sd-turbo", "sd-turbo"):
        assert describe(named(bundle, name, tmp_path / name / "painter")).weights.name == wanted


def named(bundle: Path, name: str, folder: Path) -> Bundle:
    """Return a copy of a bundle, in `folder`, of a checkpoint with that name."""
    shutil.copytree(bundle, folder)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["source"]["name"] = name
    path.write_text(json.dumps(manifest))
    return open_bundle(folder)


@pytest.mark.parametrize(
    ("command", "checks"),
    [
        ("export-files", "msd.export.files.export.refused_by_gpu"),
        ("export-android", "msd.export.android.export.require_gpu"),
    ],
)
def test_an_export_that_another_overtakes_replaces_nothing(
    command: str, checks: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was free when it began."""
    out, check, began = tmp_path / "out", resolve_name(checks), list[str]()

    def overtaken(*of: Any) -> Any:
        if not began:
            began.append(command)
            run("export-files", bundle, out, "--licence", "the other's")
        return check(*of)

    monkeypatch.setattr(checks, overtaken)
    result = CliRunner().invoke(msd, [command, str(bundle), "-o", str(out)])
    assert (result.exit_code, note(out)["settings"]) == (1, {"licence": "the other's"})
    assert f"{out} is an earlier export; --force replaces it" in result.stderr

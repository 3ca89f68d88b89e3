"""`msd export-web`: what the folder holds, what is refused, and what an export over another one leaves."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli import msd
from msd.errors import DelegateFailed
from msd.export.app.example import example_prompt
from msd.export.app.manifest import describe, load_manifest
from msd.export.web import export
from msd.models.demo import CHECKPOINT
from msd.run.runtime.tokenizer import open_tokenizer
from tests.web.networks import tiny_bundle

ROLES = ["text_encoder", "unet", "vae_decoder"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory).folder


@pytest.fixture(scope="module")
def site(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "site"
    shown = run("export-web", tiny, "-o", out, "--steps", 4, "--steps", 9, "--licence", "MIT")
    assert shown.exit_code == 0, shown.output
    return out


def run(*words: object) -> Result:
    return CliRunner().invoke(msd, [*map(str, words)])


def web_manifest(site: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((site / "model/web-manifest.json").read_text("utf-8"))
    return manifest


def listed(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every file that the manifest names."""
    files = [manifest["app"], manifest["vocabulary"], manifest["merges"]]
    for network in manifest["networks"]:
        for program in network["programs"].values():
            files += [program["program"], *program["shards"]]
        files += [*network["model"], *network["expected"]["outputs"].values()]
    return files


def test_the_manifest_names_every_file_of_the_model_with_its_content(site: Path) -> None:
    manifest = web_manifest(site)
    assert [network["role"] for network in manifest["networks"]] == ROLES
    for file in listed(manifest):
        content = (site / "model" / file["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    named = {file["file"] for file in listed(manifest)} | {"web-manifest.json"}
    there = {p.relative_to(site / "model").as_posix() for p in (site / "model").rglob("*") if p.is_file()}
    assert there == named


def test_both_precisions_share_their_weights(site: Path) -> None:
    for network in web_manifest(site)["networks"]:
        fp16, fp32 = network["programs"]["fp16"], network["programs"]["fp32"]
        assert fp16["shards"] == fp32["shards"]
        assert fp16["program"] != fp32["program"]
        assert fp16["memory"] < fp32["memory"]


def test_no_network_runs_before_all_have_a_program(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_the_last(path: Path, role: str, folder: Path) -> dict[str, Any]:
        if role == ROLES[-1]:
            raise DelegateFailed(f"{path} cannot be compiled for the page")
        return {}

    ran: list[str] = []
    monkeypatch.setattr(export, "write_programs", refuse_the_last)
    monkeypatch.setattr(export, "write_expected", lambda path, role, *_: ran.append(role))
    shown = run("export-web", tiny, "-o", tmp_path / "site")
    assert (shown.exit_code, ran) == (1, [])
    assert "vae_decoder.tflite cannot be compiled for the page" in shown.stderr
    assert not [*tmp_path.iterdir()]


def test_the_app_s_manifest_is_that_of_other_apps(site: Path, tiny: Path) -> None:
    wanted = describe(open_bundle(tiny), steps=(4, 9), licence="MIT")
    assert load_manifest(site / "model/sd-manifest.json") == wanted


def test_the_shell_has_the_page_and_no_weights(site: Path) -> None:
    files = json.loads((site / "shell.json").read_text("utf-8"))["files"]
    assert {"index.html", "page.css", "worker.js", "msd/index.js", "model/web-manifest.json"} <= set(files)
    assert not any("weights" in name for name in files)


def test_the_readme_says_how_to_show_and_embed_it(site: Path) -> None:
    text = (site / "README.md").read_text("utf-8")
    assert "msd serve ." in text
    assert "openModel" in text
    assert "Licence of the weights: MIT" in text
    assert "$" not in text


def test_json_says_what_a_visitor_fetches(tiny: Path, tmp_path: Path) -> None:
    shown = run("export-web", tiny, "-o", tmp_path / "site", "--no-expected", "--json")
    said = json.loads(shown.stdout)
    manifest = web_manifest(tmp_path / "site")
    assert all(network["expected"] is None for network in manifest["networks"])
    assert said["runtime"] == "msd"
    assert said["model"] == manifest["model"]
    programs = [network["programs"]["fp16"] for network in manifest["networks"]]
    files = {file["sha256"]: file["bytes"] for p in programs for file in (p["program"], *p["shards"])}
    assert said["bytes"]["fp16"] == sum(files.values())


def test_an_export_over_another_one_leaves_nothing_of_it(site: Path, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    shutil.copytree(site, out)
    (out / "notes.txt").write_text("the user's")
    refused = run("export-web", tiny, "-o", out)
    assert refused.exit_code == 1
    assert "--force replaces it" in refused.output
    assert run("export-web", tiny, "-o", out, "--force", "--no-expected").exit_code == 0
    assert (out / "notes.txt").read_text() == "the user's"
    assert not (out / "model/expected").exists() or not any((out / "model/expected").iterdir())


def test_a_file_that_differs_from_its_manifest_is_refused(tiny: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(tiny, bundle)
    path = bundle / "unet.tflite"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    shown = run("export-web", bundle, "-o", tmp_path / "site")
    assert shown.exit_code == 1
    assert "SHA-256" in shown.output
    assert not (tmp_path / "site").exists()


def test_options_that_do_not_fit_are_refused(tiny: Path, tmp_path: Path) -> None:
    shown = run("export-web", tiny, "-o", tmp_path / "site", "--litert-js", tmp_path)
    assert shown.exit_code == 2
    assert "--litert-js is for --runtime litert" in shown.output
    assert run("export-web", tiny, "-o", tmp_path / "site", "--runtime", "onnx").exit_code == 2
    shown = run("export-web", tiny, "-o", tmp_path / "site", "--runtime", "litert", "--litert-js", tmp_path)
    assert shown.exit_code == 1
    assert "LiteRT.js" in shown.output or "litert" in shown.output
    assert not (tmp_path / "site").exists()


def test_the_page_has_the_title_and_the_model_s_name(tiny: Path, tmp_path: Path) -> None:
    named = ("--title", 'Boats & "harbours"', "--name", "Boats 1", "--no-expected")
    shown = run("export-web", tiny, "-o", tmp_path / "site", *named)
    assert shown.exit_code == 0, shown.output
    page = (tmp_path / "site/index.html").read_text("utf-8")
    assert page.count("Boats &amp; &quot;harbours&quot;</") == 2
    assert "Pictures from your own GPU" not in page
    installed = json.loads((tmp_path / "site/manifest.webmanifest").read_text("utf-8"))
    assert installed["name"] == named[1]
    assert web_manifest(tmp_path / "site")["name"] == "Boats 1"
    assert (tmp_path / "site/README.md").read_text("utf-8").startswith("# Boats 1: ")


def test_a_visitor_chooses_among_steps_and_begins_with_an_example(
    site: Path, tiny: Path, tmp_path: Path
) -> None:
    assert run("export-web", tiny, "-o", tmp_path / "site", "--no-expected").exit_code == 0
    manifest = load_manifest(tmp_path / "site/model/sd-manifest.json")
    assert [schedule.count for schedule in manifest.schedules] == [20, 10, 30]
    assert web_manifest(site)["example"] == example_prompt(open_tokenizer(tiny / "tokenizer"))
    assert example_prompt(open_tokenizer(CHECKPOINT / "tokenizer")).startswith("two red circles")
    assert web_manifest(site)["name"] == load_manifest(site / "model/sd-manifest.json").weights.name


def test_an_empty_title_is_refused(tiny: Path, tmp_path: Path) -> None:
    for option in ("--title", "--name"):
        refused = run("export-web", tiny, "-o", tmp_path / "site", option, " ")
        assert refused.exit_code == 2
        assert f"{option} is empty; leave it out for the default." in refused.output

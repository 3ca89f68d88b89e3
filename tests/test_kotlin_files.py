"""What the Kotlin sources, run on a JVM, make of manifests and files, whole and damaged."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from msd.export.app import manifest as app
from msd.tensor_spec import TensorSpec
from tests.jvm import Jvm, Refused
from tests.kotlinc import ANDROID, LITERT, SOURCES, TESTS


def edited(folder: Path, path: Path, **changes: Any) -> Path:
    """A folder with only a manifest, that of `folder` with changes."""
    path.mkdir()
    said = json.loads((folder / app.NAME).read_text("utf-8"))
    (path / app.NAME).write_text(json.dumps({**said, **changes}))
    return path


def ports(side: tuple[TensorSpec, ...]) -> list[list[Any]]:
    return [[port.name, list(port.shape), port.dtype, port.layout] for port in side]


def test_every_source_is_short_and_says_its_package() -> None:
    stubs = (*ANDROID, *LITERT)
    for path in (*SOURCES, *stubs, *TESTS):
        lines = path.read_text("utf-8").splitlines()
        assert len(lines) < 400, path
        assert max(map(len, lines)) <= 120, path
        assert path in stubs or "package dev.msd.runtime" in lines, path
    assert len(SOURCES) > 10
    assert len(stubs) > 80


def test_the_manifest_is_read_as_it_was_written(kotlin: Jvm, plain_app: Path) -> None:
    said = app.load_manifest(plain_app / app.NAME)
    found = kotlin.ask("manifest", folder=str(plain_app))
    files = [
        [f.name, f.role, f.bytes, f.sha256, f.signature or "", ports(f.inputs), ports(f.outputs)]
        for f in said.files
    ]
    assert found["files"] == files
    assert (found["model"], found["size"], found["latent"]) == (said.model, [32, 48], [1, 4, 6, 4])
    assert found["said"] == ["epsilon", "ddim", "fp16", app.RUNTIME]
    assert found["guidance"] == 7.5
    assert found["calls"] == [
        [c.component, c.when, [i.name for i in c.inputs], [[o.value, o.factor] for o in c.outputs]]
        for c in said.calls
    ]


DAMAGED = "the manifest is damaged: "
REFUSED_MANIFESTS = [
    ({"format": 5}, "has format 5 and this library reads 4; update the app"),
    ({"format": 3}, "has format 3 and this library reads 4; export the model again"),
    ({"schedules": [{"count": 2, "runs": 3, "start": 1.0, "steps": []}]}, "a schedule of 3 runs has 0"),
    ({"schedules": []}, "the manifest has no schedule"),
    ({"height": "tall"}, f"{DAMAGED}Value tall at height"),
    ({"tokenizers": None}, f"{DAMAGED}Value null at tokenizers"),
    ({"tokenizers": {}}, "the manifest calls text_encoder with tokenizer before it is there"),
    ({"calls": []}, "the manifest has 0 calls that compute the prediction, and 1 was expected"),
    ({"files": 3}, f"{DAMAGED}Value 3 at files"),
    ({"preview": "vae"}, "the manifest has no call that decodes with vae"),
    (
        {"image": {"initial": "eye", "required": False, "inpaints": False, "schedules": []}},
        "the manifest has no call that computes eye",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED_MANIFESTS)
def test_a_senseless_manifest_is_refused(
    changes: dict[str, Any], message: str, kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    folder = edited(plain_app, tmp_path / "app", **changes)
    with pytest.raises(Refused, match=re.escape(message)):
        kotlin.ask("manifest", folder=str(folder))


def test_a_missing_component_and_a_name_that_leads_away_are_refused(
    kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    files = json.loads((plain_app / app.NAME).read_text())["files"]
    few = edited(plain_app, tmp_path / "few", files=[file for file in files if file["role"] != "vae_decoder"])
    with pytest.raises(Refused, match="BadManifest: the manifest lists no file with the role vae_decoder"):
        kotlin.ask("manifest", folder=str(few))
    for i, name in enumerate(["../unet.tflite", "..", "", "a\\b", "/etc/passwd"]):
        away = edited(plain_app, tmp_path / f"away{i}", files=[{**files[0], "name": name}, *files[1:]])
        with pytest.raises(Refused, match="which is not a plain file name"):
            kotlin.ask("manifest", folder=str(away))


def test_a_manifest_cut_anywhere_is_refused(kotlin: Jvm, plain_app: Path, tmp_path: Path) -> None:
    text = (plain_app / app.NAME).read_text().rstrip()
    path = tmp_path / app.NAME
    with pytest.raises(Refused, match=r"BadManifest: cannot read .*; msd export-android writes one"):
        kotlin.ask("manifest", folder=str(tmp_path))
    for length in [0, 1, *range(2, len(text), len(text) // 50), len(text) - 1]:
        path.write_text(text[:length])
        with pytest.raises(Refused, match="BadManifest: the manifest is damaged: "):
            kotlin.ask("manifest", folder=str(tmp_path))


def copied(plain_app: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in plain_app.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_files_are_hashed_once_and_again_when_they_change(
    kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    folder, notes = copied(plain_app, tmp_path / "app"), tmp_path / "notes"
    ask = {"folder": str(folder), "notes": str(notes)}
    kotlin.ask("check", **ask)
    unet = folder / "unet.tflite"
    whole, times = unet.read_bytes(), unet.stat()
    spoiled = whole[:-1] + b"!"
    unet.write_bytes(spoiled)
    os.utime(unet, ns=(times.st_atime_ns, times.st_mtime_ns))
    kotlin.ask("check", **ask)
    os.utime(unet, (1, 1))
    with pytest.raises(Refused, match=r"BadFile: .*unet\.tflite has another SHA-256 than the manifest says"):
        kotlin.ask("check", **ask)
    unet.write_bytes(whole[:-1])
    with pytest.raises(
        Refused, match=rf"has {len(whole) - 1} bytes and the manifest says {len(whole)}; install the model"
    ):
        kotlin.ask("check", **ask)
    unet.unlink()
    with pytest.raises(Refused, match=r"unet\.tflite is missing, though the manifest lists it"):
        kotlin.ask("check", **ask)
    unet.write_bytes(whole)
    kotlin.ask("check", **ask)


def test_notes_on_files_that_are_gone_are_removed(kotlin: Jvm, plain_app: Path, tmp_path: Path) -> None:
    """Google Play gives each version of a pack another folder, so that notes would pile up."""
    notes = tmp_path / "notes"
    for version in ("1", "2"):
        kotlin.ask("check", folder=str(copied(plain_app, tmp_path / version)), notes=str(notes))
    (notes / "mine.txt").write_text("mine")
    both = {path.name for path in notes.iterdir()}
    shutil.rmtree(tmp_path / "1")
    kotlin.ask("check", folder=str(tmp_path / "2"), notes=str(notes))
    left = {path.name for path in notes.iterdir()}
    assert len(both) == 2 * len(left) - 1
    places = {path.read_text().splitlines()[0] for path in notes.glob("*.verified")}
    assert {Path(place).parent for place in places} == {tmp_path / "2"}
    assert "mine.txt" in left

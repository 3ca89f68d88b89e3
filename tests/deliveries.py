"""Exports by every delivery, their Kotlin compiled together, and a JVM that plays an app with each."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.android.export import export_android
from msd.export.android.settings import DELIVERIES, AndroidSettings
from msd.export.android.versions import LIMITS
from msd.export.app.manifest import NAME
from tests.app_bundles import write_bundle
from tests.jvm import Jvm
from tests.kotlinc import class_path, compile_app, library
from tests.r_class import r_class

APP = Path(__file__).parent / "kotlin_app"
ASSETS = "sd-runtime/src/main/assets"
LARGE = 400_000
"""The bytes of the U-Net's file: more than one read from a socket gives."""


@dataclass(frozen=True)
class Deliveries:
    """Exports by every delivery in `folder`, and a jar of their sources, each in a package of its own."""

    folder: Path
    jar: Path

    def start(self) -> Jvm:
        """Return a process that plays apps: see tests/kotlin_app/Tried.kt."""
        return Jvm(class_path([self.jar, *library()]), "dev.msd.tried.TriedKt")

    def home(self, folder: Path, delivery: str) -> Path:
        """Return a new folder of an app of such an export: its assets are there."""
        folder.mkdir(exist_ok=True)
        (folder / "assets").symlink_to(self.folder / delivery / ASSETS)
        return folder

    @property
    def site(self) -> Path:
        """The folder that is meant for a web server."""
        return self.folder / "download" / "download"

    @property
    def files(self) -> dict[str, int]:
        """The model's files: how many bytes each has."""
        said = json.loads((self.site / NAME).read_text())
        return {file["name"]: file["bytes"] for file in said["files"]}


def export_all(folder: Path) -> Deliveries:
    """Return exports by every delivery of one model, in several packs; one compilation takes them all."""
    bundle = open_bundle(write_bundle(folder / "bundle", embeddings={"timestep_embedding": 8}))
    sizes = [part.bytes for part in bundle.manifest.components.values()]
    sources: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msd.export.android.packs.LIMITS", dataclasses.replace(LIMITS, pack=sum(sizes) - 1))
        for delivery in DELIVERIES:
            export_android(bundle, folder / delivery, AndroidSettings(delivery))
            sources += _renamed(folder / delivery, delivery.replace("-", ""), folder)
            _enlarge(folder / delivery)
    return Deliveries(folder, compile_app([*sources, *sorted(APP.glob("*.kt"))], "deliveries"))


def _renamed(out: Path, name: str, folder: Path) -> list[Path]:
    """Write an export's sources of its delivery, and Played.kt, to `folder` in a package called `name`."""
    delivery = (out / "sd-runtime").rglob("kotlin/dev/msd/delivery/*.kt")
    texts = {path.name: path.read_text() for path in (*delivery, APP / "delivery" / "Played.kt")}
    if library_r := r_class("dev.msd.runtime", [out / "sd-runtime"]):
        texts["R.kt"] = library_r
    for file, text in texts.items():
        (folder / f"{name}-{file}").write_text(text.replace("dev.msd.delivery", f"dev.msd.{name}"))
    return [folder / f"{name}-{file}" for file in sorted(texts)]


def _enlarge(out: Path) -> None:
    """Put a file of `LARGE` bytes in the U-Net's place; no network is run here."""
    content = np.random.default_rng(0).bytes(LARGE)
    facts: dict[str, Any] = {"bytes": LARGE, "sha256": hashlib.sha256(content).hexdigest()}
    for path in out.rglob("unet.tflite"):
        path.write_bytes(content)
    for path in out.rglob(NAME):
        said = json.loads(path.read_text())
        unet = next(file for file in said["files"] if file["name"] == "unet.tflite")
        unet.update(facts)
        path.write_text(json.dumps(said))

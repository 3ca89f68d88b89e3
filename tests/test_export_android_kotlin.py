"""The Kotlin of every kind of export, compiled beside the library and run on a JVM."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from msd.bundle import open_bundle
from msd.export.android.export import export_android
from msd.export.android.manifest import NAME, load_manifest
from msd.export.android.settings import DELIVERIES, AndroidSettings
from msd.export.android.versions import LIMITS
from tests.app_bundles import write_bundle
from tests.kotlinc import SOURCES, class_path, compile_app, library, misspelt

APP = Path(__file__).parent / "kotlin_app"

RESOURCES = """package com.example.{name}

internal object R {{
{groups}
}}
"""


def resources(out: Path, name: str) -> str:
    """What Gradle's plugin makes of resources: a class with a number for each name."""
    res = out / "sample/src/main/res"
    named = {
        "layout": [path.stem for path in (res / "layout").iterdir()],
        "string": re.findall(r'<string name="(\w+)"', (res / "values/strings.xml").read_text()),
        "id": re.findall(r'"@\+id/(\w+)"', (res / "layout/draw.xml").read_text()),
    }
    groups = [
        f"    object {group} {{ " + "; ".join(f"const val {n}: Int = {i}" for i, n in enumerate(names)) + " }"
        for group, names in named.items()
    ]
    return RESOURCES.format(name=name, groups="\n".join(groups))


@dataclass(frozen=True)
class Exports:
    """Exports by every delivery in `folder`, and their Kotlin in one jar."""

    folder: Path
    jar: Path

    def ask(self, kind: str, home: Path, *words: str) -> str:
        """Return what a JVM says of a delivery asked for the model: see tests/kotlin_app/Deliveries.kt."""
        path = class_path([self.jar, *library()])
        command = ["java", "-XX:+UseSerialGC", "-cp", path, "dev.msd.tried.DeliveriesKt"]
        line = "\t".join([kind, str(home), *words])
        return subprocess.run(
            command, input=line, capture_output=True, text=True, check=True, timeout=120
        ).stdout.strip()


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    """All deliveries, each in a package of its own, so that one compilation takes them all; several packs."""
    folder = tmp_path_factory.mktemp("app")
    bundle = open_bundle(write_bundle(folder / "bundle", embeddings={"timestep_embedding": 8}))
    sizes = [part.bytes for part in bundle.manifest.components.values()]
    sources = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msd.export.android.packs.LIMITS", dataclasses.replace(LIMITS, pack=sum(sizes) - 1))
        for delivery in DELIVERIES:
            name = delivery.replace("-", "")
            export_android(bundle, folder / delivery, AndroidSettings(delivery, f"com.example.{name}"))
            sources += renamed(folder / delivery, name, folder)
    return Exports(folder, compile_app([*sources, *sorted(APP.glob("*.kt"))]))


def renamed(out: Path, name: str, folder: Path) -> list[Path]:
    """Write an export's sources, but for the library's own, to `folder` in a package called `name`."""
    runtime = out / "sd-runtime/src/main/kotlin/dev/msd/runtime"
    assert {path.name: path.read_bytes() for path in runtime.iterdir()} == {
        path.name: path.read_bytes() for path in SOURCES
    }
    texts = {path.name: path.read_text() for path in sorted(out.rglob("*.kt")) if path.parent != runtime}
    texts["R.kt"] = resources(out, name)
    for file, text in texts.items():
        (folder / f"{name}-{file}").write_text(text.replace("dev.msd.delivery", f"dev.msd.{name}"))
    return [folder / f"{name}-{file}" for file in texts]


def test_the_kotlin_of_every_delivery_compiles_without_a_warning(exports: Exports) -> None:
    with zipfile.ZipFile(exports.jar) as jar:
        names = set(jar.namelist())
    for name in ("assetpack", "aipack", "download", "assets"):
        assert f"com/example/{name}/DrawActivity.class" in names
        assert f"dev/msd/{name}/Models.class" in names


def test_gradle_files_are_kotlin(exports: Exports, tmp_path: Path) -> None:
    """As far as the parser goes: what Gradle's own names mean, only Gradle knows."""
    scripts = {path.relative_to(exports.folder): path.read_text() for path in exports.folder.rglob("*.kts")}
    assert len(scripts) > 12
    for i, text in enumerate([*scripts.values(), "android { compileSdk = }"]):
        (tmp_path / f"script{i}.kt").write_text(f"fun script{i}() {{\n{text}\n}}\n")
    assert misspelt(tmp_path.glob("*.kt")) == {f"script{len(scripts)}.kt"}


def test_packs_arrive_and_are_one_folder_of_links(exports: Exports, tmp_path: Path) -> None:
    folder = tmp_path / "no_backup/sd-models"
    said = exports.ask("assetpack", tmp_path, str(exports.folder / "asset-pack"), "2,7,4")
    count = len(list((exports.folder / "asset-pack").glob("sd-models*")))
    assert count > 1
    assert said == f"{folder} ({15 * count}, {15 * count}) 1 5"
    assert all(path.is_symlink() for path in folder.iterdir())


REFUSED = [
    ("2,5", "BadFile: Play does not deliver sd_models: error -6; try again"),
    ("6", "BadFile: Play does not deliver sd_models: its download was cancelled; try again"),
    (
        "9",
        "BadFile: Play does not deliver sd_models: it asks for the user's consent, or did not"
        " install this app",
    ),
    ("", "BadFile: Play does not deliver the model: there is no store"),
]


@pytest.mark.parametrize(("statuses", "message"), REFUSED)
def test_packs_that_do_not_arrive_are_a_sentence(
    statuses: str, message: str, exports: Exports, tmp_path: Path
) -> None:
    said = exports.ask("assetpack", tmp_path, str(exports.folder / "asset-pack"), statuses)
    assert said == message


def test_packs_without_files_are_for_devices_with_less_memory(exports: Exports, tmp_path: Path) -> None:
    said = exports.ask("assetpack", tmp_path, str(tmp_path), "4")
    assert said == "BadFile: Play delivers this model to devices with more memory than this one"


def test_assets_are_copied_once(exports: Exports, tmp_path: Path) -> None:
    inside = exports.folder / "assets/sd-runtime/src/main/assets"
    (tmp_path / "assets").symlink_to(inside)
    total = sum(file.bytes for file in load_manifest(inside / "sd-models" / NAME).files)
    said = exports.ask("assets", tmp_path, "")
    assert said == f"{tmp_path}/no_backup/sd-models ({total}, {total}) 0 5"


def test_a_download_is_held_against_the_manifest_in_the_app(exports: Exports, tmp_path: Path) -> None:
    (tmp_path / "assets").symlink_to(exports.folder / "download/sd-runtime/src/main/assets")
    site = tmp_path / "site"
    shutil.copytree(exports.folder / "download/download", site)
    content = (site / "unet.tflite").read_bytes()
    (site / "unet.tflite").write_bytes(content[::-1])
    said = exports.ask("download", tmp_path, f"{site.as_uri()}/")
    assert said == "BadFile: the source's unet.tflite has another SHA-256 than the manifest says"
    (site / "unet.tflite").unlink()
    assert exports.ask("download", tmp_path, f"{site.as_uri()}/").startswith("BadFile: cannot install")
    (site / "unet.tflite").write_bytes(content)
    assert exports.ask("download", tmp_path, f"{site.as_uri()}/").endswith(" 0 5")


def test_what_was_pushed_for_development_comes_first(exports: Exports, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/sd-models").symlink_to(exports.folder / "download/download")
    assert exports.ask("assetpack", tmp_path, "nowhere", "") == f"{tmp_path}/files/sd-models null 0 5"

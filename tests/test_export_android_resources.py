"""Exported manifests, resources and assets, linked by aapt2 and packed as Gradle's plugin would."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from msd.bundle import open_bundle
from msd.export.android.export import export_android
from msd.export.android.settings import AndroidSettings
from msd.export.app import manifest as app
from tests.android_resources import badging, link, offsets

PACKAGE = "com.example.painter"
NEWER = {"dataExtractionRules": "xml/data_extraction_rules"}
"""Attributes of the app's manifest that Android 10 does not know, and the resources that they name."""


NAME = """?Bob's Café & <Co> \\ @home "7" twice"""
"""The app's, with signs that mean more in a resource."""


@pytest.fixture(scope="module")
def exported(demo_int8: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo checkpoint as assets of the app; read only."""
    folder = tmp_path_factory.mktemp("app") / "android"
    export_android(open_bundle(demo_int8), folder, AndroidSettings("assets", PACKAGE, name=NAME))
    return folder


def kept_as_they_are(out: Path) -> list[str]:
    """The endings that the app's Gradle file says not to compress, as aapt2's options."""
    said = re.findall(r'noCompress \+= "(.*)"', (out / "app/build.gradle.kts").read_text())
    return [word for ending in said for word in ("-0", ending)]


def test_the_app_links_and_its_networks_are_stored(exported: Path, tmp_path: Path) -> None:
    main = exported / "app/src/main"
    manifest = for_android_10(main / "AndroidManifest.xml", tmp_path)
    assets = exported / "sd-runtime/src/main/assets"
    packing = ["-A", str(assets), *kept_as_they_are(exported)]
    apk = link(manifest, PACKAGE, tmp_path, main / "res", packing)
    said = badging(apk)
    assert f"package: name='{PACKAGE}'" in said
    assert f"launchable-activity: name='{PACKAGE}.StudioActivity'" in said
    label = re.search("application-label:'(.*)'\n", said)
    assert label
    assert re.sub(r"\\(.)", r"\1", label[1]) == NAME, "aapt2 shows some signs behind backslashes"
    with zipfile.ZipFile(apk) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        for file in app.load_manifest(assets / "sd-models" / app.NAME).files:
            entry = entries[f"assets/sd-models/{file.name}"]
            assert entry.file_size == file.bytes
            assert (entry.compress_type == zipfile.ZIP_STORED) == file.name.endswith(".tflite")
            assert archive.read(entry) == (assets / "sd-models" / file.name).read_bytes()
        assert any(name.startswith("res/layout") for name in entries)
    _aligned(apk, tmp_path / "aligned.apk")


def test_only_attributes_that_android_10_does_not_know_are_left_out(exported: Path, tmp_path: Path) -> None:
    main = exported / "app/src/main"
    with pytest.raises(AssertionError, match=r"attribute android:dataExtractionRules not found"):
        link(main / "AndroidManifest.xml", PACKAGE, tmp_path, main / "res")


def test_backups_leave_out_every_folder_of_a_model(exported: Path) -> None:
    """A model that was installed lies in no_backup, which no backup takes."""
    for name in ("data_extraction_rules", "full_backup_content"):
        tree = ElementTree.parse(exported / f"app/src/main/res/xml/{name}.xml")
        left_out = [(each.get("domain"), each.get("path")) for each in tree.getroot().iter("exclude")]
        assert set(left_out) == {("file", "sd-models/")}
    rules = ElementTree.parse(exported / "app/src/main/res/xml/data_extraction_rules.xml").getroot()
    assert [child.tag for child in rules] == ["cloud-backup", "device-transfer"]


def test_the_library_links_and_leaves_opencl_to_litert_s_manifest(exported: Path, tmp_path: Path) -> None:
    apk = link(exported / "sd-runtime/src/main/AndroidManifest.xml", "dev.msd.runtime", tmp_path)
    said = badging(apk)
    assert "native-library" not in said
    assert "permission" not in said


def test_the_library_for_downloads_may_use_the_network(demo_int8: Path, tmp_path: Path) -> None:
    export_android(open_bundle(demo_int8), tmp_path / "out", AndroidSettings("download", PACKAGE))
    apk = link(tmp_path / "out/sd-runtime/src/main/AndroidManifest.xml", "dev.msd.runtime", tmp_path)
    assert "uses-permission: name='android.permission.INTERNET'" in badging(apk)


def test_a_resource_that_is_not_there_does_not_link(exported: Path, tmp_path: Path) -> None:
    """The check can fail."""
    res = tmp_path / "res"
    shutil.copytree(exported / "app/src/main/res", res)
    strings = res / "values/strings.xml"
    strings.write_text(strings.read_text().replace('name="cancel"', 'name="stop"'))
    with pytest.raises(AssertionError, match=r"string/cancel"):
        link(for_android_10(exported / "app/src/main/AndroidManifest.xml", tmp_path), PACKAGE, tmp_path, res)


def for_android_10(manifest: Path, folder: Path) -> Path:
    """Return a manifest without the attributes that are newer than the resources that it is linked with."""
    text = manifest.read_text("utf-8")
    for name, resource in NEWER.items():
        text, count = re.subn(rf'\s+android:{name}="@{resource}"', "", text)
        assert count == 1
        assert (manifest.parent / "res" / f"{resource}.xml").is_file()
    copy = folder / "older.xml"
    copy.write_text(text, "utf-8")
    return copy


def _aligned(apk: Path, aligned: Path) -> None:
    """Align an APK with Android's tool, where there is one: every stored network begins at four bytes."""
    program = shutil.which("zipalign")
    if not program:
        return
    subprocess.run([program, "-f", "4", apk, aligned], check=True)
    found = offsets(aligned)
    networks = [name for name in found if name.endswith(".tflite")]
    assert len(networks) == 4, "three of the model, and the one that asks the device"
    assert all(found[name] % 4 == 0 for name in networks)
    subprocess.run([program, "-c", "4", aligned], check=True)

"""What `msd export-android` writes, file by file, and what it refuses."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from msd.bundle import Bundle, dump_manifest, open_bundle
from msd.errors import BadBundle, BadConfig, OutputExists, OutputUnwritable
from msd.export.android.delivery import PLACEHOLDER
from msd.export.android.export import export_android, plan
from msd.export.android.packs import Pack, divide, require_small
from msd.export.android.probe import PROBE
from msd.export.android.project import ASSETS
from msd.export.android.settings import DELIVERIES, AndroidSettings
from msd.export.android.versions import LIMITS
from msd.export.app import manifest as app
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.export.folder import NOTE
from msd.files import schema
from tests.app_bundles import write_bundle
from tests.json_schema import violations
from tests.stable_diffusion import LOOKUP
from tests.tiny_disk import tiny_disk

NETWORKS = ("text_encoder.tflite", "unet.tflite", "vae_decoder.tflite")
PACKED = "sd-models/src/main/assets/sd_models"
PLACES = {
    "asset-pack": PACKED,
    "ai-pack": PACKED,
    "download": "download",
    "assets": "sd-runtime/src/main/assets/sd-models",
}
TARGETED = AndroidSettings("ai-pack", "com.example.painter", 8 * 10**9, (6, 2), "euler", 5.0, "MIT")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("bundle") / "one"
    return open_bundle(write_bundle(folder, embeddings={"timestep_embedding": 8}))


@pytest.fixture(scope="module")
def exports(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An export by each delivery, and one with all settings; read only."""
    folder = tmp_path_factory.mktemp("exports")
    settings = {kind: AndroidSettings(kind) for kind in DELIVERIES} | {"targeted": TARGETED}
    for name, each in settings.items():
        export_android(bundle, folder / name, each)
    return {name: folder / name for name in settings}


def sparse(bundle: Bundle, folder: Path, **sizes: int) -> Bundle:
    """The bundle with files of these sizes, which hold nothing and take no space."""
    folder.mkdir()
    parts = dict(bundle.manifest.components)
    for name, part in parts.items():
        with (folder / part.file).open("wb") as file:
            os.truncate(file.fileno(), sizes.get(name, part.bytes))
        parts[name] = dataclasses.replace(part, bytes=sizes.get(name, part.bytes))
    for name in ("tokenizer", "scheduler"):
        (folder / name).symlink_to(bundle.folder / name)
    manifest = dataclasses.replace(bundle.manifest, components=parts)
    (folder / "manifest.json").write_text(dump_manifest(manifest))
    return open_bundle(folder)


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_the_model_is_where_its_delivery_takes_it_from_whole(
    delivery: str, bundle: Bundle, exports: dict[str, Path]
) -> None:
    place = exports[delivery] / PLACES[delivery]
    said = app.load_manifest(place / app.NAME)
    assert {file.name for file in said.files} == {*NETWORKS, VOCABULARY, MERGES}
    for file in said.files:
        content = (place / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
    for name in NETWORKS:
        assert (place / name).read_bytes() == (bundle.folder / name).read_bytes()
    networks = {path for path in files(exports[delivery]) if path.endswith(".tflite")}
    assert networks == {f"{PLACES[delivery]}/{name}" for name in NETWORKS} | {f"{ASSETS}/{PROBE}"}
    assert app.load_manifest(exports[delivery] / ASSETS / app.NAME) == said
    assert not list(violations(json.loads((place / app.NAME).read_text()), schema.document(app.AppManifest)))


def test_settings_are_in_the_manifest_and_the_app(bundle: Bundle, exports: dict[str, Path]) -> None:
    out = exports["targeted"]
    said = app.load_manifest(out / f"{PACKED}#group_enough_memory" / app.NAME)
    expected = app.describe(bundle, (6, 2), "euler", 5.0, licence="MIT", min_memory=8 * 10**9)
    assert said == expected
    activity = (out / "app/src/main/kotlin/com/example/painter/StudioActivity.kt").read_text()
    assert activity.startswith("package com.example.painter\n")
    assert "Licence of the weights: MIT\n" in (out / "NOTICE").read_text()


def test_a_device_with_little_memory_gets_packs_without_files(exports: dict[str, Path]) -> None:
    out = exports["targeted"]
    folders = {path.name for path in (out / "sd-models/src/main/assets").iterdir()}
    assert folders == {"sd_models#group_enough_memory", "sd_models#group_other"}
    assert files(out / "sd-models/src/main/assets/sd_models#group_other") == {PLACEHOLDER}
    tree = ElementTree.parse(out / "app/device-targeting.xml").getroot()
    config = "{http://schemas.android.com/apk/config}"
    (group,) = tree.findall(f"{config}device-group")
    (selector,) = group.findall(f"{config}device-selector")
    assert (group.get("name"), selector.get("ram-min-bytes")) == ("enough_memory", "8000000000")
    assert (
        'deviceTargetingConfig = file("device-targeting.xml")' in (out / "app/build.gradle.kts").read_text()
    )


def test_the_download_s_checksums_hold_and_the_app_has_its_manifest(exports: dict[str, Path]) -> None:
    out = exports["download"]
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out / "download", check=False
    )
    assert done.returncode == 0
    inside = out / "sd-runtime/src/main/assets/sd-models" / app.NAME
    assert inside.read_bytes() == (out / "download" / app.NAME).read_bytes()
    assert "android.permission.INTERNET" in (out / "sd-runtime/src/main/AndroidManifest.xml").read_text()


def test_every_text_is_whole(exports: dict[str, Path]) -> None:
    """Gaps are filled, XML is well-formed, brackets are balanced, the package is where it should be."""
    for out in exports.values():
        for name in files(out):
            path = out / name
            if path.suffix in (".tflite", ".json", ".txt"):
                continue
            text = path.read_text("utf-8")
            assert "@@" not in text, name
            if path.suffix == ".xml":
                ElementTree.fromstring(text)
            if path.suffix == ".kts":
                code = re.sub(r'"[^"]*"|//.*', "", text)
                assert all(code.count(a) == code.count(b) for a, b in ("{}", "()", "[]")), name


def test_gradle_knows_the_packs_that_are_there(exports: dict[str, Path]) -> None:
    for name, out in exports.items():
        packs = {path.parent.name for path in out.glob("sd-models*/build.gradle.kts")}
        said = re.search(r"assetPacks \+= listOf\((.*)\)", (out / "app/build.gradle.kts").read_text())
        assert ({m.strip('" :') for m in said[1].split(",")} if said else set()) == packs
        assert bool(packs) == (name in ("asset-pack", "ai-pack", "targeted"))
        plugin = "com.android.asset-pack" if name == "asset-pack" else "com.android.ai-pack"
        for pack in packs:
            build = (out / pack / "build.gradle.kts").read_text()
            assert f'id("{plugin}")' in build
            assert f'packName.set("{pack.replace("-", "_")}")' in build
            assert 'deliveryType.set("fast-follow")' in build
        for module in ("sd-runtime", "app"):
            assert 'noCompress += "tflite"' in (out / module / "build.gradle.kts").read_text()


def test_a_project_may_lie_in_a_folder_of_any_name(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / '.it\'s a $"project": 1'
    export_android(bundle, out, AndroidSettings("assets", app=True))
    assert 'rootProject.name = "it\'s a \\$-project-- 1"' in (out / "settings.gradle.kts").read_text()
    export_android(bundle, out, AndroidSettings("assets"), force=True)
    snippet = (out / "settings.snippet.gradle.kts").read_text()
    assert 'rootDir.resolve(".it\'s a \\$\\"project\\": 1")' in snippet
    assert not (out / "settings.gradle.kts").exists()


@pytest.mark.parametrize("min_ram", [None, 7 * 10**9])
def test_gradle_is_told_of_device_targeting_where_it_is_used(
    min_ram: int | None, bundle: Bundle, tmp_path: Path
) -> None:
    export_android(bundle, tmp_path / "out", AndroidSettings("ai-pack", min_ram=min_ram, app=True))
    lines = (tmp_path / "out/gradle.properties").read_text().splitlines()
    assert "android.useAndroidX=true" in lines
    targeting = "android.experimental.enableDeviceTargetingConfigApi=true"
    assert (targeting in lines) == (min_ram is not None)


def test_every_string_of_the_app_is_used_and_none_is_written_elsewhere(exports: dict[str, Path]) -> None:
    main = exports["assets"] / "app/src/main"
    strings = set(re.findall(r'<string name="(\w+)"', (main / "res/values/strings.xml").read_text()))
    xml = "\n".join(path.read_text() for path in main.rglob("*.xml"))
    kotlin = "\n".join(path.read_text() for path in main.rglob("*.kt"))
    used = set(re.findall(r"@string/(\w+)", xml)) | set(re.findall(r"R\.string\.(\w+)", kotlin))
    assert used == strings
    layout = (main / "res/layout/studio.xml").read_text()
    shown = re.findall(r'android:(?:text|hint|contentDescription|textOn|textOff)="(.*)"', layout)
    assert all(each.startswith("@string/") for each in shown)


def test_files_that_one_pack_cannot_hold_are_in_two(bundle: Bundle) -> None:
    sizes = {"a": 900, "b": 599, "c": 1, "d": 1500, "e": 2}
    million = 10**6
    given = [app.ModelFile(name, name, name, count * million, "") for name, count in sizes.items()]
    assert divide(given) == (
        Pack("sd_models", ("a", "b", "c")),
        Pack("sd_models_2", ("d",)),
        Pack("sd_models_3", ("e",)),
    )
    assert [pack.files for pack in divide(given[:3], 1)] == [("a", "b"), ("c",)]
    assert divide(given)[2].folder == "sd-models-3"


def test_several_packs_are_written_and_named_everywhere(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(LIMITS, pack=sum(bundle.component(n).bytes for n in ("unet", "vae_decoder")))
    monkeypatch.setattr("msd.export.android.packs.LIMITS", small)
    made = export_android(bundle, tmp_path / "out", AndroidSettings())
    assert len(made.packs) > 1
    models = (tmp_path / "out/sd-runtime/src/main/kotlin/dev/msd/delivery/Models.kt").read_text()
    script = (tmp_path / "out/install-to-device.sh").read_text()
    for pack in made.packs:
        assert f'"{pack.name}"' in models
        for name in pack.files:
            path = f"{pack.folder}/src/main/assets/{pack.name}/{name}"
            assert (tmp_path / "out" / path).is_file()
            assert path in script


def test_a_file_larger_than_a_pack_is_refused_before_anything_is_copied(
    bundle: Bundle, tmp_path: Path
) -> None:
    large = sparse(bundle, tmp_path / "large", unet=1_600_000_000)
    with pytest.raises(
        BadBundle, match=r"unet\.tflite has 1\.6 GB, and a pack at most 1\.5 GB; convert with"
    ):
        export_android(large, tmp_path / "out", AndroidSettings())
    assert not (tmp_path / "out").exists()
    assert plan(large, AndroidSettings("download")).packs == ()


def test_more_than_play_takes_in_all_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    size = 1_400_000_000
    large = sparse(bundle, tmp_path / "large", text_encoder=size, unet=size, vae_decoder=size)
    with pytest.raises(BadBundle, match=r"the model has 4\.2 GB, and Google Play accepts 4 GB in all packs"):
        plan(large, AndroidSettings())


def test_a_large_model_is_no_part_of_an_app(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"the model has 501 MB, and an app with its assets 500 MB at most"):
        plan(sparse(bundle, tmp_path / "large", unet=501_000_000), AndroidSettings("assets"))
    require_small([app.ModelFile("unet.tflite", "unet", "U-Net", LIMITS.app, "")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"package": "painter"}, "'painter' is not an app's package"),
        ({"package": "com.example.sd; rm -rf"}, "is not an app's package"),
        ({"package": "com.1example"}, "is not an app's package"),
        ({"package": "com.in.sd"}, "has 'in' in it, a keyword of Kotlin or Java"),
        ({"package": "dev.msd.runtime"}, "is the package of the library's own classes"),
        ({"name": " "}, "is not an app's name; it should be some words on one line"),
        ({"name": "two\nlines"}, "is not an app's name"),
        ({"delivery": "pigeon"}, "no delivery is called 'pigeon'; there are asset-pack, ai-pack"),
        ({"min_ram": 8 * 10**9}, "use --min-ram with --delivery ai-pack"),
        ({"min_ram": 0, "delivery": "ai-pack"}, "must be positive"),
    ],
)
def test_refuses_settings_that_no_app_can_have(changes: dict[str, Any], message: str, bundle: Bundle) -> None:
    with pytest.raises(BadConfig, match=message):
        plan(bundle, AndroidSettings(**changes))


def test_refuses_a_bundle_for_another_delegate_and_names_that_mislead(bundle: Bundle) -> None:
    parts = bundle.manifest.components

    def with_parts(**changed: Any) -> Bundle:
        manifest = dataclasses.replace(bundle.manifest, components={**parts, **changed})
        return Bundle(bundle.folder, manifest)

    with pytest.raises(BadBundle, match="is for TensorFlow Lite's delegate"):
        plan(with_parts(**{LOOKUP: parts["unet"]}), AndroidSettings())
    named = dataclasses.replace(parts["unet"], file="$(reboot).tflite")
    with pytest.raises(
        BadBundle, match=r"is not a valid file name in an app; it should look like unet\.tflite"
    ):
        plan(with_parts(unet=named), AndroidSettings())


def test_refuses_a_damaged_file_and_leaves_nothing(bundle: Bundle, tmp_path: Path) -> None:
    shutil.copytree(bundle.folder, tmp_path / "damaged")
    path = tmp_path / "damaged/text_encoder.tflite"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(
        BadBundle, match=r"text_encoder\.tflite has another SHA-256 than the bundle's manifest"
    ):
        export_android(open_bundle(tmp_path / "damaged"), tmp_path / "out", AndroidSettings())
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


def test_refuses_folders_that_hold_something(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(OutputExists, match="is not empty and not an export; give another folder, or --force"):
        export_android(bundle, out, AndroidSettings())
    export_android(bundle, out, AndroidSettings("ai-pack"), force=True)
    with pytest.raises(OutputExists, match="is an earlier export; --force replaces it"):
        export_android(bundle, out, AndroidSettings())
    with pytest.raises(OutputExists, match="is a file; give a folder to write to"):
        export_android(bundle, out / "mine.txt", AndroidSettings(), force=True)


def test_another_export_in_its_place_leaves_no_file_of_the_first(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_android(bundle, out, AndroidSettings("ai-pack", min_ram=10**9))
    (out / "mine.txt").write_text("mine")
    export_android(bundle, out, AndroidSettings("download"), force=True)
    export_android(bundle, tmp_path / "fresh", AndroidSettings("download"))
    assert files(out) == files(tmp_path / "fresh") | {"mine.txt"}
    assert not (out / "sd-models").exists()


def test_a_note_cannot_have_files_removed_elsewhere(bundle: Bundle, tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    export_android(bundle, out, AndroidSettings())
    victim.write_text("")
    note = json.loads((out / NOTE).read_text())
    (out / NOTE).write_text(json.dumps(note | {"files": ["../victim", str(victim)]}))
    export_android(bundle, out, AndroidSettings(), force=True)
    assert victim.exists()


def test_a_full_disk_is_a_sentence(bundle: Bundle, tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", "32k") as disk:
        with pytest.raises(OutputUnwritable, match="no space left to write"):
            export_android(bundle, disk / "out", AndroidSettings())
        assert list(disk.iterdir()) == []


def test_the_licence_is_said_to_be_unknown(exports: dict[str, Path]) -> None:
    for name in ("NOTICE", "README.md"):
        assert "unknown; the checkpoint does not say" in (exports["assets"] / name).read_text()


@pytest.fixture
def adb(tmp_path: Path) -> Path:
    """A program that notes what it is asked."""
    program = tmp_path / "a db"
    program.write_text('#!/bin/sh\ncat > /dev/null\nprintf "%s|" "$@" >> "$0.log"\necho >> "$0.log"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("name", ["assets", "targeted", "download"])
def test_the_script_pushes_every_file(name: str, exports: dict[str, Path], adb: Path, tmp_path: Path) -> None:
    """From a folder whose name has a blank and a quote in it."""
    moved = tmp_path / "it's here"
    moved.symlink_to(exports[name])
    script = moved / "install-to-device.sh"
    subprocess.run(["sh", "-n", script], check=True)
    subprocess.run([script], env={**os.environ, "ADB": str(adb)}, check=True, stdout=subprocess.DEVNULL)
    asked = [line.split("|")[:-1] for line in Path(f"{adb}.log").read_text().splitlines()]
    pushed = [words for words in asked if words[0] == "push"]
    assert [Path(target).name for _, _, target in pushed] == [*NETWORKS, "tokens.txt", "merges.txt", app.NAME]
    assert all(Path(source).is_file() for _, source, _ in pushed)
    package = "com.example.painter.debug" if name == "targeted" else "com.example.sd.debug"
    commands = [words[1] for words in asked if words[0] == "shell"]
    assert all(f"run-as {package} " in command for command in commands)
    for command in commands:
        subprocess.run(["sh", "-n", "-c", command], check=True)


def test_the_script_without_adb_is_one_sentence(exports: dict[str, Path]) -> None:
    script = next(iter(exports.values())) / "install-to-device.sh"
    done = subprocess.run(
        [script], capture_output=True, text=True, check=False, env={**os.environ, "ADB": "no-adb"}
    )
    assert done.returncode == 1
    assert done.stderr == (
        "there is no no-adb: install the Android SDK's platform-tools, or name an adb in ADB\n"
    )


@pytest.mark.parametrize("whole", [True, False])
def test_an_export_without_a_test_names_no_library_for_one_and_says_how_to_have_one(
    whole: bool, bundle: Bundle, tmp_path: Path
) -> None:
    export_android(bundle, tmp_path, AndroidSettings("assets", app=whole))
    texts = [path.read_text() for kind in ("kts", "toml") for path in tmp_path.rglob(f"*.{kind}")]
    assert not [text for text in texts if re.search("androidTest|junit|AndroidJUnitRunner", text)]
    said = (tmp_path / "README.md").read_text()
    assert "`msd export-android --expect expected.png --force` adds it" in said

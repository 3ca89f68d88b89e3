"""What all deliveries of an exported app have in common, and assets: on a JVM."""

from __future__ import annotations

import json
import shutil
import zipfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from msd.export.android import delivery
from msd.export.android.settings import DELIVERIES, Delivery
from msd.export.app.manifest import NAME
from tests.android_resources import badging, link, manifest_of
from tests.deliveries import LARGE, Deliveries
from tests.jvm import Jvm, Refused
from tests.tiny_disk import tiny_disk

IDS = (f"delivery {i}" for i in count())
KINDS = {kind: kind.replace("-", "") for kind in DELIVERIES}


def fetch(jvm: Jvm, home: Path, kind: Delivery, **options: Any) -> tuple[str, list[list[Any]]]:
    """Ask for the model; return its folder and what was told, or raise Refused."""
    name = next(IDS)
    jvm.ask("ask", id=name, kind=KINDS[kind], home=str(home), base="https://localhost/", **options)
    return jvm.ask("result", id=name), jvm.ask("arrivals", id=name)


def test_assets_are_copied_once(deliveries: Deliveries, played: Jvm, tmp_path: Path) -> None:
    home, total = deliveries.home(tmp_path / "home", "assets"), sum(deliveries.files.values())
    folder, told = fetch(played, home, "assets")
    assert (told[0], told[-1]) == (["fetching", 0, total], ["fetching", total, total])
    for name in (*deliveries.files, NAME):
        assert Path(folder, name).read_bytes() == (home / "assets" / "sd-models" / name).read_bytes()
    assert fetch(played, home, "assets", suspend=True) == (folder, [])


def test_assets_that_are_damaged_too_long_or_gone_are_refused_and_copied_again_later(
    deliveries: Deliveries, played: Jvm, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    shutil.copytree(deliveries.home(tmp_path / "first", "assets") / "assets", home / "assets")
    unet = home / "assets" / "sd-models" / "unet.tflite"
    content = unet.read_bytes()
    for spoiled, message in [
        (content[::-1], r"unet\.tflite arrived with another SHA-256 than the manifest says and was deleted"),
        (content[:-1], r"unet\.tflite arrived with another SHA-256"),
        (content + b"x", rf"unet\.tflite does not end after the {LARGE} bytes"),
    ]:
        unet.write_bytes(spoiled)
        with pytest.raises(Refused, match=f"BadFile: {message}"):
            fetch(played, home, "assets")
        assert not list((home / "no_backup" / "sd-models").glob("unet*"))
    unet.unlink()
    with pytest.raises(Refused, match=r"BadFile: cannot install unet\.tflite in "):
        fetch(played, home, "assets")
    unet.write_bytes(content)
    _, told = fetch(played, home, "assets")
    assert told[0][1] == deliveries.files["text_encoder.tflite"]


def test_assets_need_their_space_before_the_first_is_copied(
    deliveries: Deliveries, played: Jvm, tmp_path: Path
) -> None:
    home = deliveries.home(tmp_path / "home", "assets")
    with tiny_disk(home / "no_backup", "64k") as disk:
        with pytest.raises(Refused, match=r"NoSpace: .* bytes more and the disk has"):
            fetch(played, home, "assets")
        assert list((disk / "sd-models").iterdir()) == []


@pytest.mark.parametrize("kind", DELIVERIES)
def test_the_manifest_is_known_before_anything_arrives(
    kind: Delivery, deliveries: Deliveries, played: Jvm, tmp_path: Path
) -> None:
    home = deliveries.home(tmp_path / "home", kind)
    played.ask("play", out=str(deliveries.folder / kind))
    ask: dict[str, Any] = {"kind": KINDS[kind], "home": str(home), "base": "https://localhost/"}
    model = json.loads((deliveries.site / NAME).read_text())["model"]
    assert played.ask("name", **ask) == model
    (home / "assets").unlink()
    with pytest.raises(
        Refused, match=rf"BadManifest: the app has no asset sd-models/{NAME}; add the library's"
    ):
        played.ask("name", **ask)


@pytest.mark.parametrize("kind", DELIVERIES)
def test_a_pushed_model_is_for_builds_that_can_be_debugged(
    kind: Delivery, deliveries: Deliveries, played: Jvm, tmp_path: Path
) -> None:
    home = deliveries.home(tmp_path / "home", kind)
    played.ask("play", out="nowhere", failures="-11")
    pushed = home / "files" / "sd-models"
    pushed.mkdir(parents=True)
    (pushed / NAME).write_bytes((deliveries.site / NAME).read_bytes())
    assert fetch(played, home, kind, debuggable=True) == (str(pushed), [])
    for_users = deliveries.home(tmp_path / "users", kind)
    shutil.copytree(home / "files", for_users / "files")
    if kind == "assets":
        assert fetch(played, for_users, kind)[0] == str(for_users / "no_backup" / "sd-models")
    else:
        with pytest.raises(Refused, match="BadFile: "):
            fetch(played, for_users, kind, tries=1)


def test_another_pushed_model_than_the_app_s_is_refused(
    deliveries: Deliveries, played: Jvm, tmp_path: Path
) -> None:
    home = deliveries.home(tmp_path / "home", "assets")
    pushed = home / "files" / "sd-models"
    pushed.mkdir(parents=True)
    (pushed / NAME).write_text("{}")
    with pytest.raises(Refused, match="holds another model than the app's manifest describes; run inst"):
        fetch(played, home, "assets", debuggable=True)


@pytest.mark.parametrize("kind", DELIVERIES)
def test_an_interrupted_thread_fetches_and_checks_nothing(
    kind: Delivery, deliveries: Deliveries, played: Jvm, tmp_path: Path
) -> None:
    home = deliveries.home(tmp_path / "home", kind)
    played.ask("play", out=str(deliveries.folder / kind))
    for pack in (deliveries.folder / kind).glob("sd-models*"):
        played.ask("tell", pack=pack.name.replace("-", "_"), status=4, quiet=True)
    with pytest.raises(Refused, match=r"Cancelled: (fetching|checking) the model.* was cancelled"):
        fetch(played, home, kind, interrupted=True)


def test_a_source_is_short_and_says_its_package() -> None:
    for kind in DELIVERIES:
        sources = delivery.sources(kind, ())
        assert {"Models.kt", "Arrival.kt", "AppModel.kt"} < set(sources)
        for name, text in sources.items():
            assert "package dev.msd.delivery" in text.splitlines(), name
            assert max(map(len, text.splitlines())) <= 120, name
            assert len(text.splitlines()) < 200, name


def test_the_library_for_downloads_links_with_its_service(deliveries: Deliveries, tmp_path: Path) -> None:
    main = deliveries.folder / "download/sd-runtime/src/main"
    apk = link(main / "AndroidManifest.xml", "dev.msd.runtime", tmp_path, main / "res")
    said = badging(apk)
    for name in ("INTERNET", "FOREGROUND_SERVICE_DATA_SYNC", "POST_NOTIFICATIONS", "WAKE_LOCK"):
        assert f"uses-permission: name='android.permission.{name}'" in said
    assert "dev.msd.delivery.FetchService" in manifest_of(apk)


def test_the_file_of_an_empty_pack_is_packed_and_one_with_a_dot_is_not(
    deliveries: Deliveries, tmp_path: Path
) -> None:
    assets = tmp_path / "assets"
    (assets / "sd_models").mkdir(parents=True)
    for name in (delivery.PLACEHOLDER, ".gitkeep"):
        (assets / "sd_models" / name).write_text(delivery.placeholder(1))
    manifest = deliveries.folder / "assets/sd-runtime/src/main/AndroidManifest.xml"
    apk = link(manifest, "dev.msd.runtime", tmp_path, packing=["-A", str(assets)])
    with zipfile.ZipFile(apk) as archive:
        packed = [name for name in archive.namelist() if name.startswith("assets/")]
    assert packed == [f"assets/sd_models/{delivery.PLACEHOLDER}"]


def test_only_downloads_ask_for_permissions() -> None:
    for kind in DELIVERIES:
        entries = delivery.manifest_entries(kind)
        assert ("uses-permission" in entries, "<service" in entries) == (kind == "download",) * 2
        assert bool(delivery.dependencies(kind, "libs")) == (kind in ("asset-pack", "ai-pack"))

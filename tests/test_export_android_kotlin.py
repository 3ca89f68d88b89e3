"""The Kotlin of every kind of export, compiled beside the library by the real compiler."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from msd.android.export import export_android
from msd.android.settings import DELIVERIES, Settings
from msd.bundle import open_bundle
from tests.app_bundles import write_bundle
from tests.jvm import SOURCES, compile_app

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


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The sources of all deliveries in packages of their own, so that one compilation takes them all."""
    folder = tmp_path_factory.mktemp("app")
    bundle = open_bundle(write_bundle(folder / "bundle", embeddings={"timestep_embedding": 8}))
    written = []
    for delivery in DELIVERIES:
        out, name = folder / delivery, delivery.replace("-", "")
        export_android(bundle, out, Settings(delivery, f"com.example.{name}"))
        runtime = out / "sd-runtime/src/main/kotlin/dev/msd/runtime"
        assert {p.name: p.read_bytes() for p in runtime.iterdir()} == {
            p.name: p.read_bytes() for p in SOURCES
        }
        texts = {path.name: path.read_text() for path in out.rglob("*.kt") if path.parent != runtime}
        texts["R.kt"] = resources(out, name)
        for file, text in texts.items():
            path = folder / f"{name}-{file}"
            path.write_text(text.replace("dev.msd.delivery", f"dev.msd.{name}"))
            written.append(path)
    return written


def test_the_kotlin_of_every_delivery_compiles_without_a_warning(sources: list[Path]) -> None:
    with zipfile.ZipFile(compile_app(sources)) as jar:
        names = set(jar.namelist())
    for name in ("assetpack", "aipack", "download", "assets"):
        assert f"com/example/{name}/DrawActivity.class" in names
        assert f"dev/msd/{name}/Models.class" in names

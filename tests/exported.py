"""The Kotlin of whole projects by every delivery, beside each other, and the resources that it names.

Their instrumented tests are there, too.
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image, PngImagePlugin

from msd.bundle import open_bundle
from msd.export.android.export import export_android, plan
from msd.export.android.manifest import AppManifest
from msd.export.android.settings import DELIVERIES, AndroidSettings
from tests.app_bundles import write_bundle

RUNTIME = "dev.msd.runtime"


def exported(folder: Path) -> list[Path]:
    """Return the sources of a whole project by each delivery, each in packages of its own.

    The library is there once. Sources and exports lie in `folder`.
    """
    bundle = open_bundle(write_bundle(folder / "bundle", embeddings={"timestep_embedding": 8}))
    image = _expected(folder / "expected.png", plan(bundle, AndroidSettings()).manifest)
    texts: dict[str, str] = {}
    for delivery in DELIVERIES:
        out, name = folder / delivery, delivery.replace("-", "")
        settings = AndroidSettings(delivery, f"com.example.{name}", app=True, expect=image)
        export_android(bundle, out, settings)
        for path in out.rglob("src/*/kotlin/**/*.kt"):
            text = path.read_text("utf-8")
            of = "runtime" if f"package {RUNTIME}\n" in text else name
            texts[f"{of}/{path.name}"] = text.replace("dev.msd.delivery", f"dev.msd.{name}")
        texts[f"{name}/R.kt"] = _resources([out / "app"], f"com.example.{name}")
    texts["runtime/R.kt"] = _resources([folder / each / "sd-runtime" for each in DELIVERIES], RUNTIME)
    return [_written(folder / "sources" / name, text) for name, text in texts.items()]


def _expected(path: Path, manifest: AppManifest) -> Path:
    """Write a PNG that an app of this manifest could have generated, as msd generate writes one."""
    said = {
        "prompt": "a cat",
        "negative_prompt": "",
        "seed": "7",
        "steps": str(manifest.schedules[0].count),
        "guidance": "7.5",
        "scheduler": f"{manifest.scheduler}, {manifest.prediction}",
        "model": manifest.model,
    }
    chunks = PngImagePlugin.PngInfo()
    for name, text in said.items():
        chunks.add_text(name, text)
    Image.new("RGB", (manifest.width, manifest.height)).save(path, pnginfo=chunks)
    return path


def _resources(modules: list[Path], package: str) -> str:
    """Return what Gradle's plugin makes of the modules' resources: a class with a number for each name."""
    groups: dict[str, set[str]] = {}
    for folder in (path for module in modules for path in module.glob("src/main/res/*")):
        kind = folder.name.split("-")[0]
        for path in folder.glob("*.xml"):
            text = path.read_text("utf-8")
            groups.setdefault("id", set()).update(re.findall(r'"@\+id/(\w+)"', text))
            if kind == "values":
                for tag, name in re.findall(r'<(\w+) name="([\w.]+)"', text):
                    groups.setdefault(tag, set()).add(name.replace(".", "_"))
            else:
                groups.setdefault(kind, set()).add(path.stem)
    objects = "\n".join(
        f"    object {kind} {{ {_numbers(names)} }}" for kind, names in groups.items() if names
    )
    return f"package {package}\n\ninternal object R {{\n{objects}\n}}\n"


def _numbers(names: set[str]) -> str:
    return "; ".join(f"const val {name}: Int = {i}" for i, name in enumerate(sorted(names)))


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path

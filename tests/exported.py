"""The Kotlin of whole projects by every delivery, beside each other, and the resources that it names."""

from __future__ import annotations

import re
from pathlib import Path

from msd.bundle import open_bundle
from msd.export.android.export import export_android
from msd.export.android.settings import DELIVERIES, AndroidSettings
from tests.app_bundles import write_bundle

RUNTIME = "dev.msd.runtime"


def exported(folder: Path) -> list[Path]:
    """Return the sources of a whole project by each delivery, each in packages of its own, without tests.

    The library is there once. Sources and exports lie in `folder`.
    """
    bundle = open_bundle(write_bundle(folder / "bundle", embeddings={"timestep_embedding": 8}))
    texts: dict[str, str] = {}
    for delivery in DELIVERIES:
        out, name = folder / delivery, delivery.replace("-", "")
        export_android(bundle, out, AndroidSettings(delivery, f"com.example.{name}", app=True))
        for path in (*out.rglob("src/main/kotlin/**/*.kt"), *out.rglob("src/main/java/**/*.kt")):
            text = path.read_text("utf-8")
            library = f"package {RUNTIME}\n" in text
            of = "runtime" if library else name
            texts[f"{of}/{path.name}"] = text.replace("dev.msd.delivery", f"dev.msd.{name}")
        texts[f"{name}/R.kt"] = _resources([out / "app"], f"com.example.{name}")
    texts["runtime/R.kt"] = _resources([folder / each / "sd-runtime" for each in DELIVERIES], RUNTIME)
    return [_written(folder / "sources" / name, text) for name, text in texts.items()]


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

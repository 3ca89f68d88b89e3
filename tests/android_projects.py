"""Whole projects by every delivery, and the Kotlin of all of them in one jar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from msd.bundle import open_bundle
from msd.export.android.export import export_android
from msd.export.android.probe import PROBE, write_probe
from msd.export.android.settings import DELIVERIES, AndroidSettings
from tests.app_bundles import write_bundle
from tests.expected_images import write_expected
from tests.jvm import Jvm
from tests.kotlinc import SOURCES, class_path, compile_app, library
from tests.r_class import r_class

STUDIO = Path(__file__).parent / "kotlin_studio"
ANDROID = "{http://schemas.android.com/apk/res/android}"
GRAY = 191
"""The level of every pixel of an image whose networks give halves."""


@dataclass(frozen=True)
class Projects:
    """Projects by every delivery in `folder`, and a jar of their sources, each in a package of its own."""

    folder: Path
    jar: Path

    def start(self, *resources: Path) -> Jvm:
        """Return a process that plays an app: see tests/kotlin_studio/Scenarios.kt."""
        return Jvm(class_path([self.jar, *resources, *library()]), "com.example.assets.ScenariosKt")

    def home(self, folder: Path) -> Path:
        """Return `folder` as that of an app whose model is part of it."""
        (folder / "assets").symlink_to(self.folder / "assets" / "sd-runtime/src/main/assets")
        return folder


def home_of(model: Path, folder: Path) -> Path:
    """Return `folder` as that of an app that has the model in the folder `model` among its assets."""
    (folder / "assets").mkdir(parents=True)
    (folder / "assets/sd-models").symlink_to(model)
    write_probe(model / PROBE)
    return folder


def write_projects(folder: Path) -> Projects:
    """Write a project by each delivery to the new `folder`, and compile them all."""
    sources = export_projects(folder)
    for delivery in DELIVERIES:
        name = delivery.replace("-", "")
        shown = _shown(folder / delivery / "app/src/main/res", f"com.example.{name}")
        sources.append(_written(folder / "sources" / name / "Shown.kt", shown))
    return Projects(folder, compile_app([*sources, *sorted(STUDIO.glob("*.kt"))], "projects"))


def export_projects(folder: Path) -> list[Path]:
    """Write a project by each delivery to the new `folder`, with an instrumented test.

    Returns their Kotlin besides the library's own, each delivery's in packages of its own, and their R.
    """
    bundle = open_bundle(write_bundle(folder / "bundle", embeddings={"timestep_embedding": 8}, encoder=True))
    expected = write_expected(folder / "expected.png", bundle, level=GRAY)
    sources: list[Path] = []
    for delivery in DELIVERIES:
        name = delivery.replace("-", "")
        settings = AndroidSettings(delivery, f"com.example.{name}", steps=(2, 6), app=True, expect=expected)
        export_android(bundle, folder / delivery, settings)
        sources += _renamed(folder / delivery, name, folder)
    return sources


def kotlin_of(out: Path) -> dict[str, str]:
    """Return the Kotlin of an export besides the library's own, by file name."""
    runtime = out / "sd-runtime/src/main/kotlin/dev/msd/runtime"
    assert {path.name: path.read_bytes() for path in runtime.iterdir()} == {
        path.name: path.read_bytes() for path in SOURCES
    }
    return {path.name: path.read_text() for path in sorted(out.rglob("*.kt")) if path.parent != runtime}


def strings_of(res: Path) -> dict[str, str]:
    """Return the strings of an app by name, as a phone shows them."""
    found = ElementTree.parse(res / "values/strings.xml").getroot().iter("string")
    return {each.attrib["name"]: (each.text or "").replace("\\'", "'") for each in found}


def _renamed(out: Path, name: str, folder: Path) -> list[Path]:
    """Write the Kotlin of an export to `folder`, its delivery in a package called `name`, and its R."""
    made = {
        "R.kt": r_class(f"com.example.{name}", [out / "app"]),
        "LibraryR.kt": r_class("dev.msd.runtime", [out / "sd-runtime"]),
    }
    texts = kotlin_of(out) | {file: text for file, text in made.items() if text}
    return [
        _written(folder / "sources" / name / file, text.replace("dev.msd.delivery", f"dev.msd.{name}"))
        for file, text in texts.items()
    ]


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def _shown(res: Path, package: str) -> str:
    """Return what Android makes of an app's resources: its strings, and the views of its screen."""
    lines = [f"    R.string.{name} to {_quoted(text)}," for name, text in strings_of(res).items()]
    layouts = sorted((res / "layout").glob("*.xml"))
    return "\n".join(
        [
            f"package {package}\n",
            "internal val STRINGS: Map<Int, String> = mapOf(",
            *lines,
            ")\n",
            "internal val LAYOUTS: Map<Int, (android.content.Context) -> android.view.View> = mapOf(",
            *(f"    R.layout.{path.stem} to ::{path.stem}," for path in layouts),
            ")\n",
            *(line for path in layouts for line in _inflated(path)),
        ]
    )


def _inflated(layout: Path) -> Iterator[str]:
    """Yield the lines of a function that makes the views of a layout, all of them in one."""
    yield f"private fun {layout.stem}(context: android.content.Context) ="
    yield "    android.widget.FrameLayout(context).apply {"
    for element in ElementTree.parse(layout).getroot().iter():
        if name := element.attrib.get(f"{ANDROID}id", "").removeprefix("@+id/"):
            yield f"        addView(android.widget.{element.tag}(context).apply {{ id = R.id.{name} }})"
    yield "    }\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'

"""The texts of the library: Kotlin sources that fetch the model and generate with it, and its packs."""

from __future__ import annotations

from importlib.resources import files

from msd.export.android.project import REST, RUNTIME, Project, folder_of
from msd.export.android.settings import PACKS
from msd.export.android.templates import fill

INTERNET = '\n    <uses-permission android:name="android.permission.INTERNET" />\n'


def library_texts(project: Project) -> dict[str, str]:
    """Return the texts of the library and of the packs' modules, by their paths in the project."""
    return {**_runtime(project), **_delivery(project), **_packs(project)}


def _runtime(project: Project) -> dict[str, str]:
    kind = project.settings.delivery
    library = {"asset-pack": "asset.delivery", "ai-pack": "ai.delivery"}.get(kind)
    dependency = f"\n    implementation({project.catalog}.{library})" if library else ""
    sources = files("msd.export.android").joinpath("kotlin")
    return {
        f"{RUNTIME}/build.gradle.kts": fill(
            "runtime/build.gradle.kts", catalog=project.catalog, dependency=dependency
        ),
        f"{RUNTIME}/consumer-rules.pro": fill("runtime/consumer-rules.pro"),
        f"{RUNTIME}/src/main/AndroidManifest.xml": fill(
            "runtime/AndroidManifest.xml", permission=INTERNET if kind == "download" else ""
        ),
        **{
            f"{RUNTIME}/src/main/kotlin/dev/msd/runtime/{path.name}": path.read_text("utf-8")
            for path in sources.iterdir()
            if path.name.endswith(".kt")
        },
    }


def _delivery(project: Project) -> dict[str, str]:
    """Return the sources that fetch the model."""
    names, kind = ["Arrival.kt"], project.settings.delivery
    folder = f"{RUNTIME}/src/main/kotlin/dev/msd/delivery"
    texts = {}
    if kind in PACKS:
        prefix = "Asset" if kind == "asset-pack" else "Ai"
        names_of_packs = ", ".join(f'"{pack.name}"' for pack in project.packs)
        gaps = {"kind": prefix, "library": f"{prefix.lower()}packs", "packs": names_of_packs}
        texts[f"{folder}/Models.kt"] = fill("delivery/packs.kt", **gaps)
    else:
        names.append("Install.kt")
        texts[f"{folder}/Models.kt"] = fill(f"delivery/{kind}.kt")
    return texts | {f"{folder}/{name}": fill(f"delivery/{name}") for name in names}


def _packs(project: Project) -> dict[str, str]:
    plugin = project.settings.delivery
    block = "aiPack" if plugin == "ai-pack" else "assetPack"
    texts = {
        f"{pack.folder}/build.gradle.kts": fill(
            "packs/build.gradle.kts", plugin=plugin, block=block, pack=pack.name
        )
        for pack in project.packs
    }
    if project.settings.min_ram:
        for pack in project.packs:
            texts[f"{folder_of(pack, project.settings, REST)}/.gitkeep"] = ""
    return texts

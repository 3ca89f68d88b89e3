"""The texts of the library: Kotlin sources that fetch the model and generate with it, and its packs."""

from __future__ import annotations

from importlib.resources import files

from msd.export.android import delivery
from msd.export.android.project import REST, RUNTIME, Project, folder_of
from msd.export.android.templates import fill


def library_texts(project: Project) -> dict[str, str]:
    """Return the texts of the library and of the packs' modules, by their paths in the project."""
    return {**_runtime(project), **_delivery(project), **_packs(project)}


def _runtime(project: Project) -> dict[str, str]:
    kind, catalog = project.settings.delivery, project.catalog
    build = {"catalog": catalog, "dependency": delivery.dependencies(kind, catalog)}
    sources = files("msd.export.android").joinpath("kotlin")
    return {
        f"{RUNTIME}/build.gradle.kts": fill("runtime/build.gradle.kts", **build),
        f"{RUNTIME}/consumer-rules.pro": fill("runtime/consumer-rules.pro"),
        f"{RUNTIME}/src/main/AndroidManifest.xml": fill(
            "runtime/AndroidManifest.xml", entries=delivery.manifest_entries(kind)
        ),
        **{
            f"{RUNTIME}/src/main/kotlin/dev/msd/runtime/{path.name}": path.read_text("utf-8")
            for path in sources.iterdir()
            if path.name.endswith(".kt")
        },
    }


def _delivery(project: Project) -> dict[str, str]:
    """Return the sources that fetch the model, and their resources."""
    main, kind = f"{RUNTIME}/src/main", project.settings.delivery
    sources, resources = delivery.sources(kind, project.packs), delivery.resources(kind)
    return {
        **{f"{main}/kotlin/dev/msd/delivery/{name}": text for name, text in sources.items()},
        **{f"{main}/res/{name}": text for name, text in resources.items()},
    }


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
            path = folder_of(pack, project.settings, REST) / delivery.PLACEHOLDER
            texts[path.as_posix()] = delivery.placeholder(project.settings.min_ram)
    return texts

"""The texts of Gradle's files: settings, version catalog, properties; or what an existing project adds."""

from __future__ import annotations

import re

from msd.export.android import delivery
from msd.export.android.project import APP, Project, on_one_line
from msd.export.android.settings import PACKS
from msd.export.android.templates import fill
from msd.export.android.versions import VERSIONS

LIBRARIES = {
    "coroutines": ("org.jetbrains.kotlinx:kotlinx-coroutines-core", "coroutines"),
    "litert": ("com.google.ai.edge.litert:litert", "litert"),
    "litert-gpu": ("com.google.ai.edge.litert:litert-gpu", "litert"),
}
"""The libraries of every project, by alias: the module, and the alias of its version."""

TEST_LIBRARIES = {
    "junit": ("junit:junit", "junit"),
    "test-runner": ("androidx.test:runner", "test-runner"),
}
"""The same of the instrumented test's."""

TARGETING = "android.experimental.enableDeviceTargetingConfigApi=true\n"


def gradle_texts(project: Project) -> dict[str, str]:
    """Return the texts of Gradle's files beside the modules, by their paths in the project."""
    catalog = {f"gradle/{project.catalog}.versions.toml": catalog_text(project)}
    if not project.settings.app:
        snippet = fill(
            "gradle/settings.snippet.gradle.kts",
            folder=_in_kotlin(project.folder),
            modules=", ".join(f'"{name}"' for name in project.libraries),
        )
        return {**catalog, "settings.snippet.gradle.kts": snippet}
    modules = ", ".join(f'":{name}"' for name in (APP.name, *project.libraries))
    plugins = [f"    alias(libs.plugins.{_accessor(alias)}) apply false" for alias in _plugins(project)]
    return {
        **catalog,
        "settings.gradle.kts": fill(
            "gradle/settings.gradle.kts", name=_project_name(project.folder), modules=modules
        ),
        "build.gradle.kts": fill("gradle/build.gradle.kts", plugins="\n".join(plugins)),
        "gradle.properties": fill("gradle/gradle.properties", targeting=_targeting(project)).rstrip() + "\n",
        "gradle/wrapper/gradle-wrapper.properties": fill(
            "gradle/gradle-wrapper.properties", gradle=VERSIONS.gradle, sha256=VERSIONS.gradle_sha256
        ),
        ".gitignore": fill("gradle/gitignore"),
    }


def catalog_text(project: Project) -> str:
    """Return the version catalog: the versions, libraries and plugins that the project's files name."""
    played = delivery.LIBRARIES[project.settings.delivery]
    tests = TEST_LIBRARIES if project.expected else {}
    libraries = LIBRARIES | tests | {name: (f"com.google.android.play:{name}", name) for name in played}
    if project.settings.app:
        libraries["kotlin-gradle-plugin"] = ("org.jetbrains.kotlin:kotlin-gradle-plugin", "kotlin")
    plugins = _plugins(project)
    used = {version for _, version in libraries.values()} | ({"agp"} if plugins else set())
    versions = {name: text for name, text in _versions().items() if name in used or name.endswith("-sdk")}
    tables = {
        "versions": {name: f'"{text}"' for name, text in versions.items()},
        "libraries": {
            alias: f'{{ module = "{module}", version.ref = "{version}" }}'
            for alias, (module, version) in sorted(libraries.items())
        },
        "plugins": {
            alias: f'{{ id = "{name}", version.ref = "agp" }}' for alias, name in sorted(plugins.items())
        },
    }
    return f"# Versions that fit each other, as of {VERSIONS.as_of}.\n\n" + "\n".join(
        _table(name, lines) for name, lines in tables.items() if lines
    )


def _versions() -> dict[str, str]:
    """Return every version by its alias in a catalog."""
    return {
        "agp": VERSIONS.gradle_plugin,
        "kotlin": VERSIONS.kotlin,
        "litert": VERSIONS.litert,
        "coroutines": VERSIONS.coroutines,
        "asset-delivery": VERSIONS.asset_delivery,
        "ai-delivery": VERSIONS.ai_delivery,
        "junit": VERSIONS.junit,
        "test-runner": VERSIONS.test_runner,
        "compile-sdk": str(VERSIONS.compile_sdk),
        "min-sdk": str(VERSIONS.min_sdk),
        "target-sdk": str(VERSIONS.target_sdk),
    }


def _plugins(project: Project) -> dict[str, str]:
    """Return the plugins of a whole project by alias; an existing one names its own."""
    if not project.settings.app:
        return {}
    kinds = ["application", "library"]
    if project.settings.delivery in PACKS:
        kinds.append(project.settings.delivery)
    return {f"android-{kind}": f"com.android.{kind}" for kind in kinds}


def _table(name: str, lines: dict[str, str]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def _targeting(project: Project) -> str:
    return TARGETING if project.settings.min_ram else ""


def _accessor(alias: str) -> str:
    return alias.replace("-", ".")


def _project_name(folder: str) -> str:
    """Return a folder's name as Gradle takes a project's: without separators, and no dot at its ends."""
    return _in_kotlin(re.sub(r'[/\\:<>"?*|]', "-", folder)).strip(".") or APP.name


def _in_kotlin(text: str) -> str:
    """Return `text` escaped for a Kotlin string."""
    return re.sub(r'([\\"$])', r"\\\1", on_one_line(text))

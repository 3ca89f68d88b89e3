"""Whole projects by every delivery: their Kotlin compiled beside the library, their Gradle files parsed."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

from msd.bundle import open_bundle
from msd.export.android.export import export_android
from msd.export.android.settings import DELIVERIES, AndroidSettings
from msd.export.android.versions import VERSIONS
from tests.android_projects import Projects, kotlin_of
from tests.expected_images import write_expected
from tests.kotlinc import misspelt


@pytest.fixture(scope="module")
def libraries(android_projects: Projects, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same exports as modules for a project that exists; read only."""
    folder = tmp_path_factory.mktemp("libraries")
    bundle = open_bundle(android_projects.folder / "bundle")
    expected = write_expected(folder / "expected.png", bundle)
    for delivery in DELIVERIES:
        package = f"com.example.{delivery.replace('-', '')}"
        settings = AndroidSettings(delivery, package, steps=(2, 6), expect=expected)
        export_android(bundle, folder / delivery, settings)
    return folder


def test_the_kotlin_of_every_project_compiles_without_a_warning(android_projects: Projects) -> None:
    with zipfile.ZipFile(android_projects.jar) as jar:
        names = set(jar.namelist())
    for name in ("assetpack", "aipack", "download", "assets"):
        for each in ("StudioActivity", "StudioApplication", "ThisPhone", "ExpectedImageTest"):
            assert f"com/example/{name}/{each}.class" in names
        assert f"dev/msd/{name}/Models.class" in names


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_the_app_is_one_in_both_forms(delivery: str, android_projects: Projects, libraries: Path) -> None:
    assert kotlin_of(libraries / delivery) == kotlin_of(android_projects.folder / delivery)


def test_gradle_files_are_kotlin(android_projects: Projects, libraries: Path, tmp_path: Path) -> None:
    """As far as the parser goes: what Gradle's own names mean, only Gradle knows."""
    found = [*android_projects.folder.rglob("*.kts"), *libraries.rglob("*.kts")]
    assert {path.name for path in found} == {
        *("build.gradle.kts", "settings.gradle.kts", "settings.snippet.gradle.kts")
    }
    for i, text in enumerate([*(path.read_text() for path in found), "android { compileSdk = }"]):
        (tmp_path / f"script{i}.kt").write_text(f"fun script{i}() {{\n{text}\n}}\n")
    assert misspelt(tmp_path.glob("*.kt")) == {f"script{len(found)}.kt"}


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("form", ["libs", "sd"])
def test_a_catalog_has_what_its_files_name_and_nothing_else(
    delivery: str, form: str, android_projects: Projects, libraries: Path
) -> None:
    out = (android_projects.folder if form == "libs" else libraries) / delivery
    catalog = tomllib.loads((out / f"gradle/{form}.versions.toml").read_text())
    scripts = "\n".join(path.read_text() for path in out.rglob("*.kts"))
    named = {kind: set() for kind in ("versions", "plugins", "libraries")}
    for accessor in re.findall(rf"\b{form}((?:\.[a-z0-9]+)+)", scripts.replace(f"{form}.versions.toml", "")):
        kind, _, rest = accessor.removeprefix(".").partition(".")
        kind, alias = (kind, rest) if kind in ("versions", "plugins") else ("libraries", accessor[1:])
        named[kind].add(alias.removesuffix(".get").replace(".", "-"))
    libraries_of, plugins = catalog["libraries"], catalog.get("plugins", {})
    referred = {each["version"]["ref"] for each in (*libraries_of.values(), *plugins.values())}
    assert set(libraries_of) == named["libraries"]
    assert set(plugins) == named["plugins"]
    assert set(catalog["versions"]) == referred | named["versions"]
    assert bool(plugins) == (form == "libs")
    assert catalog["versions"]["litert"] == VERSIONS.litert
    assert libraries_of["litert-gpu"]["version"] == libraries_of["litert"]["version"]


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_project_includes_exactly_the_modules_that_are_there(
    delivery: str, android_projects: Projects, libraries: Path
) -> None:
    out, beside = android_projects.folder / delivery, libraries / delivery
    modules = {path.parent.name for path in out.glob("*/build.gradle.kts")}
    (said,) = re.findall(r"^include\((.*)\)$", (out / "settings.gradle.kts").read_text(), re.MULTILINE)
    assert set(re.findall(r'":([^"]+)"', said)) == modules
    snippet = (beside / "settings.snippet.gradle.kts").read_text()
    listed = set(re.findall(r'"([^"$]+)"', snippet.split("listOf")[1].splitlines()[0]))
    assert listed | {"app"} == {path.parent.name for path in beside.glob("*/build.gradle.kts")} == modules
    assert 'project(":sd-app").projectDir = exported.resolve("app")' in snippet
    root = {path.name for path in out.iterdir() if path.is_file()}
    assert {"settings.gradle.kts", "build.gradle.kts", "gradle.properties", ".gitignore"} <= root
    assert not {path.name for path in beside.iterdir()} & {"settings.gradle.kts", "gradle.properties"}


def test_the_wrapper_fetches_the_gradle_that_the_plugin_needs(android_projects: Projects) -> None:
    text = (android_projects.folder / "assets/gradle/wrapper/gradle-wrapper.properties").read_text()
    properties = dict(line.split("=", 1) for line in text.splitlines())
    assert properties["distributionUrl"].endswith(f"/gradle-{VERSIONS.gradle}-bin.zip")
    assert re.fullmatch("[0-9a-f]{64}", properties["distributionSha256Sum"])
    said = (android_projects.folder / "assets/README.md").read_text()
    assert f"gradle wrapper --gradle-version {VERSIONS.gradle} --gradle-distribution-sha256-sum" in said
    assert properties["distributionSha256Sum"] in said


@pytest.mark.parametrize("delivery", ["assets", "asset-pack"])
def test_the_readme_tells_to_push_only_a_model_that_the_app_lacks(
    delivery: str, android_projects: Projects
) -> None:
    said = (android_projects.folder / delivery / "README.md").read_text()
    included = delivery == "assets"
    assert (
        "4. The model is a part of the app: there is nothing to push or to fetch.\n5. " in said
    ) == included
    assert ("4. `./install-to-device.sh` pushes the model" in said) != included
    assert ("`msd export-android --delivery assets`" in said) != included


def test_debug_and_release_can_both_be_installed_and_the_script_pushes_into_debug(
    android_projects: Projects,
) -> None:
    out = android_projects.folder / "assets"
    build = (out / "app/build.gradle.kts").read_text()
    assert 'applicationId = "com.example.assets"' in build
    assert 'getByName("debug") { applicationIdSuffix = ".debug" }' in build
    assert "'com.example.assets.debug'" in (out / "install-to-device.sh").read_text()

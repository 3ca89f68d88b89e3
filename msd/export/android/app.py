"""The texts of the app: one screen, its resources, and the test that runs on a phone."""

from __future__ import annotations

from xml.sax.saxutils import escape

from msd.export.android.gradle import TEST_LIBRARIES
from msd.export.android.project import APP, GROUP, TARGETING, Project
from msd.export.android.templates import fill, kotlin_in

TEST_RUNNER = '\n        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"'
RESOURCES = (
    "drawable/ic_front.xml",
    "layout/control.xml",
    "layout/studio.xml",
    "mipmap-anydpi-v26/ic_launcher.xml",
    "mipmap-anydpi/ic_launcher.xml",
    "values-night-v29/themes.xml",
    "values-v29/themes.xml",
    "values/colors.xml",
    "values/strings.xml",
    "values/themes.xml",
    "xml/data_extraction_rules.xml",
    "xml/full_backup_content.xml",
)


def app_texts(project: Project) -> dict[str, str]:
    """Return the texts of the app's module, by their paths in the project."""
    catalog, app_name = project.catalog, resource(project.settings.name)
    return {
        f"{APP}/build.gradle.kts": _build(project),
        f"{APP}/lint.xml": fill("app/lint.xml", catalog=catalog),
        f"{APP}/proguard-rules.pro": fill("app/proguard-rules.pro"),
        f"{APP}/src/main/AndroidManifest.xml": fill("app/AndroidManifest.xml"),
        **{f"{APP}/src/main/res/{name}": fill(f"app/res/{name}", app_name=app_name) for name in RESOURCES},
        **_sources(project, "main", "kotlin"),
        **_targeting(project),
        **_test(project),
    }


def _build(project: Project) -> str:
    """Return the module's Gradle file, which names what a test needs where there is one."""
    catalog, expected = project.catalog, project.expected
    libraries = "".join(
        f"\n    androidTestImplementation({catalog}.{name.replace('-', '.')})" for name in TEST_LIBRARIES
    )
    return fill(
        "app/build.gradle.kts",
        package=project.settings.package,
        catalog=catalog,
        packs=project.pack_lines(),
        runner=TEST_RUNNER if expected else "",
        tests=libraries if expected else "",
    )


def resource(text: str) -> str:
    """Return a text on one line as a string resource of Android has it, in which some signs mean more."""
    escaped = escape(text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"'))
    return f"\\{escaped}" if escaped[0] in "@?" else escaped


def _sources(project: Project, kind: str, template: str) -> dict[str, str]:
    """Return the Kotlin sources of a kind, "main" or "androidTest", from the folder of templates."""
    package = project.settings.package
    folder = f"{APP}/src/{kind}/kotlin/{package.replace('.', '/')}"
    return {
        f"{folder}/{name}": fill(f"app/{template}/{name}", package=package, address=project.address)
        for name in kotlin_in(f"app/{template}")
    }


def _targeting(project: Project) -> dict[str, str]:
    if not project.settings.min_ram:
        return {}
    text = fill(f"packs/{TARGETING}", group=GROUP, min_ram=project.settings.min_ram)
    return {f"{APP}/{TARGETING}": text}


def _test(project: Project) -> dict[str, str]:
    """Return the instrumented test's texts, if there is an image to expect."""
    if project.expected is None:
        return {}
    facts = f"{APP}/src/androidTest/resources/expected.json"
    return {**_sources(project, "androidTest", "androidTest"), facts: project.expected.dump()}

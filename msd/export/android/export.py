"""A bundle as an Android project, or as modules for one: a library, packs with the model, an app, a README.

sd-runtime/                      the library
sd-models/, sd-models-2/ …       packs for Google Play; or download/, or assets of the library
app/                             an app with one screen
settings.gradle.kts  build.gradle.kts  gradle.properties  gradle/      a whole project has them;
settings.snippet.gradle.kts                                            modules have this instead
README.md  NOTICE  install-to-device.sh
sd-export.json                   the list of exported files
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from msd.bundle import Bundle
from msd.errors import BadBundle
from msd.export.android.app import app_texts
from msd.export.android.expect import Expected, read_expected
from msd.export.android.gradle import gradle_texts
from msd.export.android.library import library_texts
from msd.export.android.packs import Pack, divide, require_small
from msd.export.android.probe import PROBE, write_probe
from msd.export.android.project import APP, ASSETS, DOWNLOAD, Project
from msd.export.android.readme import readme_texts
from msd.export.android.settings import PACKS, AndroidSettings, check
from msd.export.app.manifest import NAME, AppManifest, describe, dump_manifest
from msd.export.app.model_files import networks, place, require_gpu, sums
from msd.export.folder import exporting, finish, require_free
from msd.files.verified_copy import OnProgress
from msd.run.runtime.needs import takes_mask

EXPECTED = APP / "src/androidTest/resources/expected.png"


@dataclass(frozen=True)
class ExportPlan:
    """The content of an export: the app's manifest, the packs, if Google Play delivers the model, and the
    image that its instrumented test expects."""

    manifest: AppManifest
    packs: tuple[Pack, ...]
    expected: Expected | None = None


def plan(bundle: Bundle, settings: AndroidSettings) -> ExportPlan:
    """Return the plan of an export.

    Raises BadConfig for impossible settings, BadBundle for a bundle that an app cannot use or that exceeds
    Google Play's limits, and BadImage for an expected image that the app cannot generate.
    """
    check(settings)
    manifest = describe(
        bundle,
        settings.steps,
        settings.scheduler,
        settings.guidance,
        licence=settings.licence,
        report=settings.report,
        min_memory=settings.min_ram,
    )
    if settings.app and takes_mask(bundle):
        raise BadBundle(
            f"{bundle.folder} repaints a part of an image, and the app has no masks; export without --app,"
            " and give the library one in an app of yours"
        )
    models = networks(manifest)
    packs: tuple[Pack, ...] = ()
    if settings.delivery in PACKS:
        rest = len(dump_manifest(manifest).encode()) + sum(f.bytes for f in manifest.files if f not in models)
        packs = divide(models, rest)
    elif settings.delivery == "assets":
        require_small(manifest.files)
    expected = read_expected(settings.expect, manifest) if settings.expect else None
    return ExportPlan(manifest, packs, expected)


def export_android(
    bundle: Bundle,
    out: Path,
    settings: AndroidSettings,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> ExportPlan:
    """Write the project to the folder `out`, with `force` over an existing one, and return its plan.

    Raises the errors of `plan`, BadBundle for a file whose SHA-256 differs from the manifest's,
    DelegateFailed for one that the GPU delegate does not support, OutputExists and OutputUnwritable. No file
    gets its final name before all are written, and nothing is copied of a bundle with a file that is refused.
    """
    contents = plan(bundle, settings)
    require_free(out, force)
    require_gpu(bundle, contents.manifest)
    with exporting(out, force, sum(file.bytes for file in contents.manifest.files)) as staging:
        project = Project(
            folder=out.absolute().name,
            settings=settings,
            manifest=contents.manifest,
            packs=contents.packs,
            expected=contents.expected,
        )
        for texts in (library_texts, app_texts, gradle_texts, readme_texts):
            for name, text in texts(project).items():
                _write(staging / name, text)
        _place(bundle, project, staging, on_progress)
        _write_assets(contents.manifest, staging)
        if contents.expected:
            shutil.copyfile(contents.expected.path, staging / EXPECTED)
        kept = {"package": settings.package, "name": settings.name, "licence": settings.licence}
        finish(staging, out, "android", contents.manifest.model, kept)
    return contents


def _place(bundle: Bundle, project: Project, staging: Path, on_progress: OnProgress | None) -> None:
    folders = {name: staging / folder for name, folder in project.folders.items()}
    place(bundle, project.manifest, folders, staging / project.first_folder, on_progress)
    if project.settings.delivery == "download":
        _write(staging / DOWNLOAD / "SHA256SUMS", sums(project.manifest))


def _write_assets(manifest: AppManifest, staging: Path) -> None:
    """Write what the app asks the device with before it fetches a model: the manifest, and a tiny network."""
    _write(staging / ASSETS / NAME, dump_manifest(manifest))
    write_probe(staging / ASSETS / PROBE)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    if text.startswith("#!"):
        path.chmod(0o755)

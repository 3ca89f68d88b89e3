"""A bundle as part of an Android project: a library, packs with the model, a sample, and how to join them.

sd-runtime/                      the library
sd-models/, sd-models-2/ …       packs of Play's; or download/, or assets of the library
sample/                          an app of one screen
settings.snippet.gradle.kts  README.md  NOTICE  install-to-device.sh
sd-export.json                   which files are ours
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msd.bundle import Bundle
from msd.export.android.manifest import AppManifest, describe, dump_manifest
from msd.export.android.model_files import networks, place, sums
from msd.export.android.packs import Pack, divide, require_small
from msd.export.android.project import ASSETS, Project, folder_of
from msd.export.android.settings import PACKS, Settings, check
from msd.export.folder import exporting, finish, require_free
from msd.files.verified_copy import OnProgress

DOWNLOAD = Path("download")


@dataclass(frozen=True)
class Plan:
    """What is to be written: the app's manifest, and the packs, none where Play does not deliver them."""

    manifest: AppManifest
    packs: tuple[Pack, ...]


def plan(bundle: Bundle, settings: Settings) -> Plan:
    """Return what an export would write.

    Raises BadConfig for impossible settings, and BadBundle for a bundle that an app cannot draw with or whose
    files are larger than Play takes.
    """
    check(settings)
    manifest = describe(
        bundle,
        settings.steps,
        settings.scheduler,
        settings.guidance,
        licence=settings.licence,
        report=settings.report,
    )
    found = networks(manifest)
    packs: tuple[Pack, ...] = ()
    if settings.delivery in PACKS:
        rest = len(dump_manifest(manifest).encode()) + sum(f.bytes for f in manifest.files if f not in found)
        packs = divide(found, rest)
    elif settings.delivery == "assets":
        require_small(manifest.files)
    return Plan(manifest, packs)


def export_android(
    bundle: Bundle,
    out: Path,
    settings: Settings,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Write the project to the folder `out`, and return what it is; with `force` over what is there.

    Raises what `plan` raises, BadBundle for a file that is not what the bundle says, OutputExists and
    OutputUnwritable. Nothing is there under its final name before all of it is written.
    """
    made = plan(bundle, settings)
    require_free(out, force)
    with exporting(out) as staging:
        for name, text in Project(out.absolute().name, settings, made.manifest, made.packs).texts().items():
            _write(staging / name, text)
        _place(bundle, made, settings, staging, on_progress)
        finish(staging, out, "android", made.manifest.model)
    return made


def _place(
    bundle: Bundle, made: Plan, settings: Settings, staging: Path, on_progress: OnProgress | None
) -> None:
    if made.packs:
        folders = {name: staging / folder_of(pack, settings) for pack in made.packs for name in pack.files}
        first = staging / folder_of(made.packs[0], settings)
    else:
        first = staging / (DOWNLOAD if settings.delivery == "download" else ASSETS)
        folders = {file.name: first for file in networks(made.manifest)}
    place(bundle, made.manifest, folders, first, on_progress)
    if settings.delivery == "download":
        _write(staging / DOWNLOAD / "SHA256SUMS", sums(made.manifest))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    if text.startswith("#!"):
        path.chmod(0o755)

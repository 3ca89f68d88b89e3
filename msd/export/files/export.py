"""A bundle as the files that an app of any platform needs, with the same manifest as in Android apps."""

from __future__ import annotations

from collections.abc import Collection
from importlib.resources import files
from pathlib import Path
from string import Template

import msd
from msd.bundle import Bundle
from msd.export.app.manifest import AppManifest
from msd.export.app.model_files import licence_of, networks, place, refused_by_gpu, sums
from msd.export.folder import exporting, finish, require_free
from msd.files.verified_copy import OnProgress

MODELS = "SDModels"


def export_files(
    bundle: Bundle,
    out: Path,
    manifest: AppManifest,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, str]:
    """Write the folder `out`: SDModels/ with the model, its manifest and checksums, and README.md.

    `manifest` is the result of `describe` for the bundle. Returns by file name why LiteRT's GPU delegate does
    not support a network, which an app may run on the CPU. Raises BadBundle for a file
    whose SHA-256 differs from the manifest's, BadModelFile for one that is no model, OutputExists and
    OutputUnwritable.
    """
    folders = {file.name: MODELS for file in networks(manifest)}
    require_free(out, force)
    refusals = refused_by_gpu(bundle, manifest)
    with exporting(out, force, sum(file.bytes for file in manifest.files)) as staging:
        models = staging / MODELS
        place(
            bundle,
            manifest,
            {name: staging / folder for name, folder in folders.items()},
            models,
            on_progress,
        )
        (models / "SHA256SUMS").write_text(sums(manifest), "utf-8")
        (staging / "README.md").write_text(_readme(manifest, refusals), "utf-8")
        finish(staging, out, "files", manifest.model, {"licence": manifest.weights.licence})
    return refusals


def _readme(manifest: AppManifest, refusals: Collection[str]) -> str:
    text = files(__package__).joinpath("README.template.md").read_text("utf-8")
    return Template(text).substitute(
        name=" ".join(manifest.weights.name.split()),
        msd=msd.__version__,
        runtime=manifest.runtime,
        width=manifest.width,
        height=manifest.height,
        licence=licence_of(manifest),
        but=f", but for {', '.join(refusals)}, which the GPU delegate refuses" if refusals else "",
    )

"""Copy the model's files to the folders from which an app reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from msd.bundle import Bundle
from msd.errors import BadBundle, DelegateFailed
from msd.export.app.manifest import AppManifest, ModelFile, write_manifest
from msd.files.verified_copy import OnProgress, copy_verified
from msd.run.runners.backends.litert_gpu import require_supported

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.tflite")


def networks(manifest: AppManifest) -> tuple[ModelFile, ...]:
    """Return the .tflite files; raises BadBundle for a name that shells, Gradle or Kotlin could misread."""
    models = tuple(file for file in manifest.files if file.signature is not None)
    for file in models:
        if not PLAIN.fullmatch(file.name):
            raise BadBundle(
                f"{file.name!r} is not a valid file name in an app; it should look like unet.tflite"
            )
    return models


def refused_by_gpu(bundle: Bundle, manifest: AppManifest) -> dict[str, str]:
    """Return by file name why LiteRT's GPU delegate does not support a network, a sentence each.

    Raises BadModelFile for a file that is no model.
    """
    refusals = {}
    for file in networks(manifest):
        try:
            require_supported(bundle.folder / file.name)
        except DelegateFailed as refusal:
            refusals[file.name] = str(refusal)
    return refusals


def require_gpu(bundle: Bundle, manifest: AppManifest) -> None:
    """Raise DelegateFailed for a network that LiteRT's GPU delegate, on which apps run, does not support.

    Raises BadModelFile for a file that is no model.
    """
    for file in networks(manifest):
        require_supported(bundle.folder / file.name)


def place(
    bundle: Bundle,
    manifest: AppManifest,
    folders: Mapping[str, Path],
    first: Path,
    on_progress: OnProgress | None = None,
) -> None:
    """Copy each network to its folder in `folders`, by file name, and manifest and tokenizer to `first`.

    Raises BadBundle for a file whose SHA-256 differs from the manifest's, and OSError.
    """
    for file in networks(manifest):
        folder = folders[file.name]
        folder.mkdir(parents=True, exist_ok=True)
        copy_verified(bundle.folder / file.name, folder / file.name, file.sha256, on_progress)
    first.mkdir(parents=True, exist_ok=True)
    write_manifest(manifest, bundle, first)


def sums(manifest: AppManifest) -> str:
    """Return the input of `sha256sum --check` for all files except the manifest."""
    return "".join(f"{file.sha256}  {file.name}\n" for file in manifest.files)


def licence_of(manifest: AppManifest) -> str:
    """Return the licence of the weights in words."""
    return manifest.weights.licence or "unknown; the checkpoint does not say, so find out before you publish"

"""The model's files put where an app takes them from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from msd.bundle import Bundle
from msd.errors import BadBundle
from msd.export.android.manifest import AppManifest, ModelFile, write_manifest
from msd.files.verified_copy import OnProgress, copy_verified

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.tflite")


def networks(manifest: AppManifest) -> tuple[ModelFile, ...]:
    """Return the .tflite files; raises BadBundle for a name that shells, Gradle or Kotlin could misread."""
    found = tuple(file for file in manifest.files if file.signature is not None)
    for file in found:
        if not PLAIN.fullmatch(file.name):
            raise BadBundle(f"{file.name!r} is no name for a file of an app; it should be like unet.tflite")
    return found


def place(
    bundle: Bundle,
    manifest: AppManifest,
    folders: Mapping[str, Path],
    first: Path,
    on_progress: OnProgress | None = None,
) -> None:
    """Copy each network to its folder of `folders`, by file name; the manifest and the tokenizer to `first`.

    Raises BadBundle for a file that is not what the bundle's manifest says, and OSError.
    """
    for file in networks(manifest):
        folder = folders[file.name]
        folder.mkdir(parents=True, exist_ok=True)
        copy_verified(bundle.folder / file.name, folder / file.name, file.sha256, on_progress)
    first.mkdir(parents=True, exist_ok=True)
    write_manifest(manifest, bundle, first)


def sums(manifest: AppManifest) -> str:
    """Return lines that `sha256sum --check` takes, of all files but the manifest."""
    return "".join(f"{file.sha256}  {file.name}\n" for file in manifest.files)


def licence_of(manifest: AppManifest) -> str:
    """Return the licence of the weights in words."""
    return manifest.weights.licence or "unknown; the checkpoint does not say, so find out before you publish"

"""Copies of large files that verify the SHA-256 while they copy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from msd.errors import BadBundle

CHUNK = 1 << 22
"""Bytes that are in memory at once."""

OnProgress = Callable[[str, int, int], None]
"""A callback that gets a file's name, the bytes copied so far, and its size."""


def copy_verified(source: Path, target: Path, sha256: str, on_progress: OnProgress | None = None) -> None:
    """Copy `source` to the new file `target` in an existing folder.

    Raises BadBundle if the bytes do not have the hash `sha256`, and OSError.
    """
    digest, done, size = hashlib.sha256(), 0, source.stat().st_size
    with source.open("rb") as from_, target.open("xb") as to:
        while chunk := from_.read(CHUNK):
            digest.update(chunk)
            to.write(chunk)
            done += len(chunk)
            if on_progress:
                on_progress(source.name, done, size)
    if digest.hexdigest() != sha256:
        raise BadBundle(
            f"{source} has another SHA-256 than the bundle's manifest says; convert the checkpoint again"
        )

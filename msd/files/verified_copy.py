"""Large files copied a piece at a time, and held against their SHA-256 on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from msd.errors import BadBundle

PIECE = 1 << 22

OnProgress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes copied so far, and its size."""


def copy_verified(source: Path, target: Path, sha256: str, on_progress: OnProgress | None = None) -> None:
    """Copy `source` to the new file `target`; its folder is there.

    Raises BadBundle where the bytes are not those of `sha256`, and OSError.
    """
    digest, done, size = hashlib.sha256(), 0, source.stat().st_size
    with source.open("rb") as from_, target.open("xb") as to:
        while piece := from_.read(PIECE):
            digest.update(piece)
            to.write(piece)
            done += len(piece)
            if on_progress:
                on_progress(source.name, done, size)
    if digest.hexdigest() != sha256:
        raise BadBundle(
            f"{source} has another SHA-256 than the bundle's manifest says; convert the checkpoint again"
        )

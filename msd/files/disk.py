"""The disk below the files: what is on it for good, and how much room it has."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from msd.errors import OutputUnwritable


def real_place(path: Path) -> Path:
    """Return the absolute path without links; a link to nothing leads to where it points."""
    return Path(os.path.realpath(path))


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        # Some file systems cannot do this with folders.
        if problem.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until everything in `folder` is on the disk; raises OSError."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def require_space(out: Path, needed: int) -> None:
    """Raise OutputUnwritable where the disk of `out`, which need not exist, has fewer bytes free."""
    place = real_place(out)
    around = next(path for path in (place, *place.parents) if path.exists())
    free = shutil.disk_usage(around).free
    if needed > free:
        raise OutputUnwritable(
            f"no space left to write {out}: it takes about {_size(needed)}, and {_size(free)} are free;"
            " free some and run again"
        )


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"

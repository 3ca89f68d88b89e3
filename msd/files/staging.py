"""Staging folders: output is written beside its final place and published only once it is complete."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msd.errors import OutputUnwritable
from msd.files.atomic import raises_unwritable


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside `out`, and delete it afterwards in every case.

    First deletes the remains of a killed run. Raises OutputUnwritable if the folder is not writable, or
    another run is using it.
    """
    staging = out.absolute().with_name(f".{out.name}.part")
    with raises_unwritable(out, staging):
        staging.mkdir(parents=True, exist_ok=True)
        lock = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _lock(lock, staging, out)
            try:
                _empty(staging)
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        finally:
            os.close(lock)


def publish(staging: Path, out: Path, last: str) -> None:
    """Move all files of `staging` to their places in `out`, and replace existing ones.

    Deletes the file `last` from `out` first and moves it last, so that it exists only beside complete others.
    """
    (out / last).unlink(missing_ok=True)
    files = [path.relative_to(staging) for path in staging.rglob("*") if path.is_file()]
    for file in sorted(files, key=lambda path: (path.name == last, path)):
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / file, out / file)


def _lock(lock: int, staging: Path, out: Path) -> None:
    """Lock the folder; the system releases the lock when the process ends, even by a crash."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputUnwritable(f"another run is writing {out}; wait for it, or end it") from None
    if not staging.exists() or not os.path.samestat(os.fstat(lock), staging.stat()):
        raise OutputUnwritable(f"another run has just written {out}; run again if that is still wanted")


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

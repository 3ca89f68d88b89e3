"""Staging folders: output is written there, on the disk of its place, until it is whole.

    .msd-part/           in an output folder that exists; beside one that does not, and beside a single file,
                         it is .NAME.msd-part/
        msd-staging      the mark that the folder is ours: made first, deleted last
        new/             the files
        journal.json     msd/files/journal.py

The next run deletes the folder that a killed run left. One that has files and no mark is never touched.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msd.errors import OutputUnwritable
from msd.files.fingerprint import fingerprint
from msd.files.journal import JOURNAL

STAGING, MARK = ".msd-part", "msd-staging"
LONGEST = 200
"""Bytes of a name that still have room for ours around it."""


def beside(place: Path) -> Path:
    """Return the staging folder beside `place`; raises OutputUnwritable for the root, which has no side."""
    if not place.name:
        raise OutputUnwritable(f"{place} is the root of the file system; give a folder in it")
    name = place.name if len(os.fsencode(place.name)) <= LONGEST else fingerprint(os.fsencode(place.name))
    return place.with_name(f".{name}{STAGING}")


@contextmanager
def staging_folder(folder: Path, out: Path, wait: bool = False) -> Iterator[Path]:
    """Make `folder`, empty but for the mark, for a `with` block that writes `out`; delete it in every case.

    What a journal has yet to move stays. Raises OSError, and OutputUnwritable for a folder that is not ours,
    and where another run has it, unless `wait`.
    """
    with locked(folder, out, wait):
        try:
            _empty(folder)
            (folder / MARK).touch()
            yield folder
        finally:
            discard(folder)


@contextmanager
def locked(folder: Path, out: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a staging folder, made if need be; the system releases it when the process ends."""
    try:
        lock = _lock(folder, out, wait)
    except OutputUnwritable:  # another run's folder, which is empty until that run makes its mark
        raise
    except BaseException:  # such as Ctrl-C
        with suppress(OSError):
            folder.rmdir()
        raise
    try:
        yield
    finally:
        os.close(lock)


def require_ours(folder: Path, out: Path) -> None:
    """Raise OutputUnwritable where something that msd did not make has the name of a staging folder."""
    if os.path.lexists(folder) and not is_ours(folder):
        raise OutputUnwritable(
            f"{folder} is in the way of writing {out}, and msd did not make it; move it to another place"
        )


def is_ours(folder: Path) -> bool:
    """Return whether `folder` is one with our mark, or empty as a run leaves it that is killed at once."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return False
        names = os.listdir(folder)
        return not names or (MARK in names and stat.S_ISREG((folder / MARK).lstat().st_mode))
    except FileNotFoundError:  # another run of ours has just deleted it
        return True


def sweep(folder: Path) -> None:
    """Delete a staging folder that a killed run left; leave one that is in use, or not ours."""
    with suppress(OSError, OutputUnwritable):
        if folder.lstat().st_uid == os.geteuid() and is_ours(folder):
            with locked(folder, folder):
                discard(folder)


def discard(folder: Path) -> None:
    """Delete a staging folder that is locked, the mark last, unless its journal is not completed."""
    if (folder / JOURNAL).exists():
        return
    with suppress(OSError):
        _empty(folder)
        (folder / MARK).unlink(missing_ok=True)
        folder.rmdir()


def _lock(folder: Path, out: Path, wait: bool) -> int:
    """Return the locked descriptor of `folder`: of the one that is there now, not of one just deleted."""
    while True:
        require_ours(folder, out)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # another run has just deleted it
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_at(lock, folder):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise OutputUnwritable(f"another run is writing {out}; wait for it, or end it") from None
        os.close(lock)
        if not wait:
            raise OutputUnwritable(f"another run has just written {out}; run again if that is still wanted")


def _is_at(lock: int, folder: Path) -> bool:
    """Return whether the open folder is the one that now has the name."""
    try:
        return os.path.samestat(os.fstat(lock), folder.lstat())
    except FileNotFoundError:
        return False


def _empty(folder: Path) -> None:
    """Delete everything in `folder` except the mark."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()

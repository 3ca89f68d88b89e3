"""Atomic writes: a file gets its final name only once it is complete, and on the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msd.errors import OutputExists
from msd.files.disk import real_place, sync
from msd.files.staging import beside, staging_folder
from msd.files.targets import require_file
from msd.files.unwritable import raises_unwritable

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What linking a file says on a disk that has no links, such as FAT."""


@contextmanager
def atomic_write(path: Path, force: bool = True, lasting: bool = True) -> Iterator[Path]:
    """Yield a temporary path on the disk of `path`, which it becomes at the end; delete it if anything fails.

    What is not `lasting` may still be on its way to the disk.

    Of several processes that write the same file without `force` exactly one succeeds; the others raise
    OutputExists. Raises OutputUnwritable when the disk is full, the folder is not writable, or `path` is
    something else than a file. A link stays: the file that it leads to is written.
    """
    place = real_place(path)
    with raises_unwritable(path, beside(place)), staging_folder(beside(place), path, wait=True) as staging:
        temporary = staging / place.name
        yield temporary
        if lasting:
            sync(temporary)
        require_file(place, path, place.parent)
        if force:
            os.replace(temporary, place)
        else:
            _place_new(temporary, place, path)
        if lasting:
            sync(place.parent)


def _place_new(temporary: Path, place: Path, path: Path) -> None:
    """Give a file its name in one step; raises OutputExists where there is one."""
    try:
        _link(temporary, place)
    except FileExistsError:
        raise OutputExists(f"{path} exists; --force replaces it") from None


def _link(temporary: Path, place: Path) -> None:
    try:
        os.link(temporary, place)
    except OSError as problem:
        if problem.errno not in NO_LINKS:
            raise
        if os.path.lexists(place):  # our own processes hold the lock of the staging folder meanwhile
            raise FileExistsError from problem
        os.replace(temporary, place)

"""Files that appear under their final name only when complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msd.errors import OutputUnwritable

_FULL = (errno.ENOSPC, errno.EDQUOT)
_BARRED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's complaints while `path` is written into OutputUnwritable."""
    try:
        yield
    except OSError as problem:
        if problem.errno in _FULL:
            raise OutputUnwritable(f"no space left to write {path}; free some and run again") from problem
        if problem.errno in _BARRED:
            raise OutputUnwritable(f"{path} cannot be written: {problem.strerror}") from problem
        raise


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, renamed to it at the end and removed if anything fails.

    Raises OutputUnwritable when the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()

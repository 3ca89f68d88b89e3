"""Atomic writes: a file gets its final name only once it is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msd.errors import OutputUnwritable


@contextmanager
def raises_unwritable(path: Path, temporary: Path) -> Iterator[None]:
    """Convert an OSError that occurs while `temporary` is written, for `path`, to OutputUnwritable.

    An OSError about another file (such as a source that vanished) passes unchanged.
    """
    try:
        yield
    except OSError as problem:
        if not _concerns(problem.filename, temporary):
            raise
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutputUnwritable(f"no space left to write {path}; free some and run again") from problem
        raise OutputUnwritable(f"{path} cannot be written ({problem.strerror})") from problem


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` at the end, delete it if anything fails.

    Raises OutputUnwritable when the disk is full or the folder is not writable.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with raises_unwritable(path, temporary):
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _concerns(filename: str | None, temporary: Path) -> bool:
    """Whether `filename` is `temporary`, a file inside it, or a folder around it."""
    if filename is None:
        return True
    reported = Path(filename).absolute()
    return reported.is_relative_to(temporary.absolute()) or temporary.absolute().is_relative_to(reported)

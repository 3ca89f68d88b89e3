"""Faults of the output as errors that name it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msd.errors import OutputUnwritable

SHORT = re.compile(r"\d+ requested and \d+ written")
"""What NumPy says, without an error's number, where a disk takes only a part of an array."""


def is_full(problem: OSError) -> bool:
    """Return whether a disk, or a user's share of it, is full."""
    return problem.errno in (errno.ENOSPC, errno.EDQUOT) or bool(SHORT.search(str(problem)))


@contextmanager
def raises_unwritable(path: Path, temporary: Path) -> Iterator[None]:
    """Convert an OSError that occurs while `temporary` is written, for `path`, to OutputUnwritable.

    An OSError about another file (such as a source that vanished) passes unchanged; an OutputUnwritable on a
    file in `temporary` names the one in `path` that it would have become.
    """
    try:
        yield
    except OutputUnwritable as problem:
        problem.rename(f"{temporary}{os.sep}", f"{path}{os.sep}")
        raise
    except OSError as problem:
        if not _concerns(problem.filename, temporary) and not _lies_in(problem.filename, path):
            raise
        if is_full(problem):
            raise OutputUnwritable(f"no space left to write {path}; free some and run again") from problem
        raise OutputUnwritable(f"{path} cannot be written ({problem.strerror or problem})") from problem


def _concerns(filename: str | None, temporary: Path) -> bool:
    """Whether `filename` is `temporary`, a file inside it, or a folder around it."""
    if filename is None:
        return True
    return _lies_in(filename, temporary) or temporary.absolute().is_relative_to(Path(filename).absolute())


def _lies_in(filename: str, place: Path) -> bool:
    """Whether `filename` is `place`, or inside it by its real path."""
    return Path(filename).absolute().is_relative_to(Path(os.path.realpath(place)))

"""Files that appear under their final name only when complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msd.errors import OutputUnwritable


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, renamed to it at the end and removed if anything fails.

    Raises OutputUnwritable when the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as problem:
        if problem.filename not in (None, str(temporary)):
            raise
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutputUnwritable(f"no space left to write {path}; free some and run again") from problem
        raise OutputUnwritable(f"{path} cannot be written ({problem.strerror})") from problem
    finally:
        with suppress(OSError):
            temporary.unlink()

"""Scratch folders in the system's temporary folder; those of killed runs go when the next is made."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from msd.files.journal import NEW
from msd.files.staging import staging_folder, sweep

PREFIX = "msd-scratch-"


def is_scratch(path: Path) -> bool:
    """Return whether a file is in a scratch folder, and gone after the run."""
    return any(parent.name.startswith(PREFIX) for parent in path.parents)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder that only this user may read, and delete it afterwards; raises OSError."""
    around = Path(tempfile.gettempdir())
    for left in around.glob(f"{PREFIX}*"):
        sweep(left)
    folder = around / f"{PREFIX}{uuid4().hex}"
    with staging_folder(folder, folder, wait=True):
        (folder / NEW).mkdir()
        yield folder / NEW

"""The folder that a report is to be written to, checked before what it reports on is computed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msd.bundle import require_no_bundle
from msd.errors import OutputExists
from msd.files.publication import contents, recover
from msd.files.targets import require_targets
from msd.files.unwritable import raises_unwritable


def require_replaceable(folder: Path, files: Iterable[str], force: bool) -> None:
    """Raise OutputExists for a bundle and, unless `force`, a folder that is not empty; and OutputUnwritable.

    First completes a report that was cut off while it replaced another. `files` are those of the report.
    """
    recover(folder)
    require_no_bundle(folder)
    with raises_unwritable(folder, folder):
        if folder.is_dir() and contents(folder) and not force:
            raise OutputExists(f"{folder} exists; --force replaces it")
    require_targets(folder, files)

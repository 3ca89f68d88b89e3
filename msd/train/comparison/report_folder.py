"""The folder of a comparison: its result and its contact sheet."""

from __future__ import annotations

from pathlib import Path

from msd.bundle import require_no_bundle
from msd.errors import OutputExists
from msd.files import schema
from msd.files.publication import contents, publish, recover, staged
from msd.files.targets import require_targets
from msd.files.unwritable import raises_unwritable
from msd.train.comparison.compare import Comparison
from msd.train.comparison.sheet import contact_sheet

RESULT, SHEET = "result.json", "sheet.png"


def require_replaceable(folder: Path, force: bool) -> None:
    """Raise OutputExists for a bundle and, unless `force`, a folder that is not empty; and OutputUnwritable.

    First completes a report that was cut off while it replaced another.
    """
    recover(folder)
    require_no_bundle(folder)
    with raises_unwritable(folder, folder):
        if folder.is_dir() and contents(folder) and not force:
            raise OutputExists(f"{folder} exists; --force replaces it")
    require_targets(folder, [RESULT, SHEET])


def write_report(comparison: Comparison, folder: Path) -> None:
    """Write result.json and sheet.png to a folder, over earlier ones. Raises OutputUnwritable."""
    with staged(folder) as staging, raises_unwritable(folder, staging):
        contact_sheet(comparison).save(staging / SHEET, "PNG", optimize=True)
        (staging / RESULT).write_text(schema.dump(comparison.result), "utf-8")
        publish(staging, folder, RESULT)

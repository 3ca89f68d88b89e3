"""The folder of a comparison: its result and its contact sheet."""

from __future__ import annotations

from pathlib import Path

from msd.files import schema
from msd.files.publication import publish, staged
from msd.files.unwritable import raises_unwritable
from msd.measure import report_target
from msd.train.comparison.compare import Comparison
from msd.train.comparison.sheet import contact_sheet

RESULT, SHEET = "result.json", "sheet.png"
STOPPED = "stopped"
"""The folder in a report's for what was there when something ended the comparison."""


def require_replaceable(folder: Path, force: bool) -> None:
    """Raise what `report_target.require_replaceable` raises for a comparison."""
    report_target.require_replaceable(folder, [RESULT, SHEET], force)


def write_report(comparison: Comparison, folder: Path) -> None:
    """Write result.json and sheet.png to a folder, over earlier ones, and remove those of a stopped run.

    Raises OutputUnwritable.
    """
    with staged(folder) as staging, raises_unwritable(folder, staging):
        contact_sheet(comparison).save(staging / SHEET, "PNG", optimize=True)
        (staging / RESULT).write_text(schema.dump(comparison.result), "utf-8")
        publish(staging, folder, RESULT, [f"{STOPPED}/{name}" for name in (RESULT, SHEET)])

"""The folder of a regression's report: index.html, result.json, and the new images."""

from __future__ import annotations

from pathlib import Path

from msd.bundle import require_no_bundle
from msd.errors import OutputExists
from msd.files import schema
from msd.files.publication import contents, publish, recover, staged
from msd.files.targets import require_targets
from msd.files.unwritable import raises_unwritable
from msd.measure.regress.page import to_html
from msd.measure.regress.regression import Regression
from msd.measure.regress.suite import Suite
from msd.run.runtime.image import save_image

PAGE, RESULT, PICTURES = "index.html", "result.json", "pictures"


def require_replaceable(folder: Path, suite: Suite, force: bool) -> None:
    """Raise OutputExists for a bundle and, unless `force`, a folder that is not empty; and OutputUnwritable.

    First completes a report that was cut off while it replaced another.
    """
    recover(folder)
    require_no_bundle(folder)
    with raises_unwritable(folder, folder):
        if folder.is_dir() and contents(folder) and not force:
            raise OutputExists(f"{folder} exists; --force replaces it")
    pictures = (f"{PICTURES}/{each.name}.png" for each in suite.drawing.pictures)
    require_targets(folder, [PAGE, RESULT, *pictures])


def write_report(regression: Regression, folder: Path) -> None:
    """Write the report to a folder, over an earlier one; the page comes last. Raises OutputUnwritable.

    Other files there stay.
    """
    with staged(folder) as staging, raises_unwritable(folder, staging):
        (staging / PICTURES).mkdir()
        for name, picture in regression.new.items():
            save_image(picture, staging / PICTURES / f"{name}.png")
        (staging / RESULT).write_text(schema.dump(regression.result), "utf-8")
        (staging / PAGE).write_text(to_html(regression), "utf-8")
        publish(staging, folder, PAGE)

"""The folder of a regression's report: index.html, result.json, and the new images."""

from __future__ import annotations

from pathlib import Path

from msd.files import schema
from msd.files.atomic import raises_unwritable
from msd.files.staging import publish, staged
from msd.regress.page import to_html
from msd.regress.regression import Regression
from msd.runtime.image import save_image

PAGE, RESULT, PICTURES = "index.html", "result.json", "pictures"


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
        folder.mkdir(parents=True, exist_ok=True)
        publish(staging, folder, PAGE)

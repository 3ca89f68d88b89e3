"""The folder of a regression's report: index.html, result.json, and the new images."""

from __future__ import annotations

from pathlib import Path

from msd.files import schema
from msd.files.disk import real_place
from msd.files.publication import publish, staged
from msd.files.unwritable import raises_unwritable
from msd.measure import report_target
from msd.measure.regress.compare import FORMAT, Result
from msd.measure.regress.junit import is_junit_of
from msd.measure.regress.page import to_html
from msd.measure.regress.regression import Regression
from msd.measure.regress.suite import NAME, Suite
from msd.run.runtime.image import save_image

PAGE, RESULT, PICTURES = "index.html", "result.json", "pictures"


def require_replaceable(folder: Path, suite: Suite, force: bool) -> None:
    """Raise what `report_target.require_replaceable` raises for the report of a suite."""
    pictures = (f"{PICTURES}/{each.name}.png" for each in suite.drawing.pictures)
    report_target.require_replaceable(folder, [PAGE, RESULT, *pictures], force)


def write_report(regression: Regression, folder: Path) -> list[Path]:
    """Write the report to a folder, over an earlier one; the page comes last. Raises OutputUnwritable.

    Images that an earlier report lists and this one lacks go, and so does the earlier one's JUnit XML; other
    files there stay. Returns the earlier one's JUnit XML beside the folder.
    """
    earlier = _earlier(folder)
    with staged(folder) as staging, raises_unwritable(folder, staging):
        (staging / PICTURES).mkdir()
        for name, picture in regression.new.items():
            save_image(picture, staging / PICTURES / f"{name}.png")
        (staging / RESULT).write_text(schema.dump(regression.result), "utf-8")
        (staging / PAGE).write_text(to_html(regression), "utf-8")
        publish(staging, folder, PAGE, _stale(folder, earlier) if earlier else ())
    return [each for each in sorted(folder.parent.glob("*.xml")) if earlier and is_junit_of(each, earlier)]


def _earlier(folder: Path) -> Result | None:
    """Return the result of the earlier report in a folder; None where it cannot be read."""
    try:
        return schema.load(Result, folder / RESULT, FORMAT, "a result")
    except (OSError, ValueError):
        return None


def _stale(folder: Path, earlier: Result) -> list[str]:
    """Return the images and the JUnit XML of an earlier report in a folder."""
    images = [f"{PICTURES}/{each.name}.png" for each in earlier.pictures if NAME.fullmatch(each.name)]
    place = real_place(folder)
    found = (each for each in place.rglob("*.xml") if is_junit_of(each, earlier))
    return [*images, *(each.relative_to(place).as_posix() for each in found)]

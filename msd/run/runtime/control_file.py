"""A picture that steers, from a file: as a ControlNet expects it, or the edges of a photograph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from msd.bundle import Bundle
from msd.errors import BadConfig
from msd.run.runtime.arrays import Float
from msd.run.runtime.control import Control
from msd.run.runtime.initial_image import Fit, open_initial_image
from msd.run.runtime.needs import image_size

BLUR, LOW, HIGH = 1.4, 0.1, 0.2
"""Of Canny's edges: the standard deviation in pixels, and the thresholds of brightness from 0 to 1."""


@dataclass(frozen=True)
class ControlFile:
    """The file of a picture that steers, by the ControlNet `name`, and how much it counts.

    `begin` and `until` are the part of the steps, None for what is said of all pictures.
    """

    name: str
    path: Path
    scale: float = 1.0
    begin: float | None = None
    until: float | None = None


def require_used(
    image: str | Path | None,
    controls: Sequence[ControlFile],
    fit: Fit,
    begin: float,
    until: float,
    from_photo: bool,
) -> None:
    """Raise BadConfig for settings of pictures that are not given, or of one where there are several."""
    if not controls and (from_photo or (begin, until) != (0, 1)):
        raise BadConfig(
            "control_from, control_until and from_photo are of pictures that steer; give controls too"
        )
    if controls and ((begin != 0 and not begin_open(controls)) or (until != 1 and not until_open(controls))):
        raise BadConfig(
            "control_from and control_until are of pictures that name no part of the steps; these do"
        )
    if from_photo and len(controls) > 1:
        raise BadConfig("from_photo finds the edges of one photograph, and there are several controls")
    if image is None and not controls and fit != "crop":
        raise BadConfig("fit is of a picture; give an image, or controls")


def begin_open(controls: Iterable[ControlFile]) -> bool:
    """Return whether one of the pictures leaves open from which step on it steers."""
    return any(control.begin is None for control in controls)


def until_open(controls: Iterable[ControlFile]) -> bool:
    """Return whether one of the pictures leaves open until which step it steers."""
    return any(control.until is None for control in controls)


def parse_control(text: str) -> ControlFile:
    """Return what `NAME=FILE[:SCALE[:FROM[:UNTIL]]]` says; raises BadConfig for other text.

    File names may contain colons: up to three numbers at the end are no part of one, unless a file has the
    longer name.
    """
    name, equals, path = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not (name and equals and path):
        raise BadConfig(
            f"{text!r} should be NAME=FILE[:SCALE[:FROM[:UNTIL]]], the name of a ControlNet and a picture"
        )
    numbers: list[float] = []
    while len(numbers) < 3 and not Path(path).exists():
        shorter, _, last = path.rpartition(":")
        if not shorter or (number := _number(last)) is None:
            break
        path, numbers = shorter, [number, *numbers]
    scale, begin, until = [*numbers, *(None,) * 3][:3]
    return ControlFile(name, Path(path), 1.0 if scale is None else scale, begin=begin, until=until)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_control(
    bundle: Bundle, file: ControlFile, begin: float, until: float, fit: Fit = "crop", from_photo: bool = False
) -> Control:
    """Return the picture in a file, fitted to a bundle's size as an initial image is, as a control.

    `begin` and `until` are of files that say none. With `from_photo`, the picture is the photograph's edges.
    Raises BadImage, and BadConfig for numbers out of bounds.
    """
    image = open_initial_image(file.path, *image_size(bundle), fit)
    control = Control(
        name=file.name,
        hint=image.pixels,
        scale=file.scale,
        begin=begin if file.begin is None else file.begin,
        until=until if file.until is None else file.until,
        description=image.description,
    )
    if not from_photo:
        return control
    return replace(control, hint=canny(image.pixels), description=f"the edges of {image.description}")


def canny(pixels: Float) -> Float:
    """Return the edges of an image (1, height, width, 3) in [-1, 1], white on black, in the same form.

    Canny, "A Computational Approach to Edge Detection" (1986), by scikit-image.
    """
    from skimage.color import rgb2gray
    from skimage.feature import canny as edges_of

    edges = edges_of(rgb2gray((pixels[0] + 1) / 2), sigma=BLUR, low_threshold=LOW, high_threshold=HIGH)
    return np.repeat(np.where(edges, np.float32(1), np.float32(-1))[None, ..., None], 3, axis=-1)

"""A picture that steers, from a file: as a ControlNet expects it, or the edges of a photograph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle
from msd.errors import BadConfig
from msd.run.runtime.control import Control
from msd.run.runtime.initial_image import Fit, open_initial_image
from msd.run.runtime.needs import image_size

Float = npt.NDArray[np.float32]
BLUR, LOW, HIGH = 1.4, 0.1, 0.2
"""Of Canny's edges: the standard deviation in pixels, and the thresholds of brightness from 0 to 1."""


@dataclass(frozen=True)
class ControlFile:
    """The file of a picture that steers, by the ControlNet `name`, and how much it counts."""

    name: str
    path: Path
    scale: float = 1.0


def parse_control(text: str) -> ControlFile:
    """Return what `NAME=FILE[:SCALE]` says; raises BadConfig for other text.

    File names may contain colons: the text after the last one is a scale if it is a number, and no file has
    the whole as its name.
    """
    name, equals, rest = text.partition("=")
    if not (name and equals and rest):
        raise BadConfig(f"{text!r} should be NAME=FILE[:SCALE], the name of a ControlNet and a picture")
    path, _, scale = rest.rpartition(":")
    if path and not Path(rest).exists():
        try:
            return ControlFile(name, Path(path), float(scale))
        except ValueError:
            pass
    return ControlFile(name, Path(rest))


def read_control(
    bundle: Bundle, file: ControlFile, begin: float, until: float, fit: Fit = "crop", from_photo: bool = False
) -> Control:
    """Return the picture in a file, fitted to a bundle's size as an initial image is, as a control.

    With `from_photo`, the picture is the photograph's edges. Raises BadImage, and BadConfig for numbers out
    of bounds.
    """
    image = open_initial_image(file.path, *image_size(bundle), fit)
    control = Control(
        name=file.name,
        hint=image.pixels,
        scale=file.scale,
        begin=begin,
        until=until,
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

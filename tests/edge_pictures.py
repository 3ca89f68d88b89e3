"""Pictures with edges, and the edges that scikit-image finds in them."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from msd.run.runtime.control_file import canny
from msd.run.runtime.image import image_of
from tests.photos import colours

MOST_DIFFERENT = 0.001
"""The share of pixels that may be edges in one and not in the other, though none is in these pictures."""


def shapes(width: int, height: int, smooth: bool) -> np.ndarray:
    """Return shapes with hard edges, or with soft ones."""
    picture = Image.new("RGB", (160, 128), (200, 220, 250))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((20, 30, 90, 100), fill=(220, 30, 30))
    draw.ellipse((70, 10, 150, 90), fill=(30, 60, 200))
    draw.polygon([(10, 120), (60, 60), (120, 125)], fill=(40, 160, 60))
    kernel = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    return np.asarray(picture.resize((width, height), kernel))


PICTURES = {
    "waves, noise and a corner": colours(120, 88, 1)[..., :3],
    "noise": np.random.default_rng(0).integers(0, 256, (64, 50, 3), np.uint8),
    "hard shapes": shapes(208, 96, smooth=False),
    "soft shapes": shapes(256, 320, smooth=True),
    "one colour": np.full((20, 30, 3), 90, np.uint8),
    "one row": colours(1, 30, 2)[..., :3],
    "nothing but border": colours(2, 2, 3)[..., :3],
}
"""RGB, uint8 (height, width, 3), by what is in them."""


def require_edges(found: np.ndarray, picture: np.ndarray) -> None:
    """Require that `found`, a flag per pixel, are the edges that `msd generate --from-photo` finds."""
    wanted = canny(image_of(picture))[0, ..., 0] > 0
    different = (found.reshape(wanted.shape) != wanted).mean()
    assert different <= MOST_DIFFERENT, f"{different:.2%} of the pixels differ"
    assert wanted.any() == found.any()

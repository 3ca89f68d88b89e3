"""Photos that tests make up, and the runtime's resampling in the order of the apps'."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from msd.run.runtime import initial_image


def colours(height: int, width: int, seed: int, alpha: bool = False) -> np.ndarray:
    """Return RGBA, uint8 (height, width, 4): waves, noise, and edges of full contrast that overshoot."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    waves = [np.sin(rows / (3 + c)) * 70 + np.cos(columns / (5 + c)) * 70 + 128 for c in range(4)]
    rgba = (np.stack(waves, -1) + random.integers(-30, 30, (height, width, 4))).clip(0, 255).astype(np.uint8)
    rgba[: height // 3, width // 2 :, :3] = 255 * (random.random() < 0.5)
    if not alpha:
        rgba[..., 3] = 255
    return rgba


@contextmanager
def resampling_across_first() -> Iterator[None]:
    """Let the runtime resample across first, whatever Pillow's version."""

    def resize(image: Image.Image, box: tuple[int, int, int, int], target: tuple[int, int]) -> Image.Image:
        cropped, kernel = image.crop(box), Image.Resampling.LANCZOS
        return cropped.resize((target[0], cropped.height), kernel).resize(target, kernel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(initial_image, "_resize", resize)
        yield

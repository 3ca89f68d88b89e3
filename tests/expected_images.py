"""PNGs as `msd generate` writes them, without generating."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from msd.bundle import Bundle
from msd.run.runtime.image import GeneratedImage, save_image
from msd.run.runtime.request import Request
from msd.run.runtime.scheduler import bundle_scheduler, name_of_kind


def write_expected(path: Path, bundle: Bundle, level: int = 0, **changes: Any) -> Path:
    """Write an image whose pixels are all `level`, with the text chunks of a request, and return its path.

    `changes` replace chunks; None takes one away.
    """
    scheduler = bundle_scheduler(bundle, None)
    metadata = {
        **Request(
            "a red circle", negative_prompt="a “blue” square", seed=7, steps=2, guidance=5.0
        ).metadata(),
        "scheduler": f"{name_of_kind(scheduler)}, {scheduler.diffusion.prediction_type}",
        "model": bundle.model_hash,
        **changes,
    }
    chunks = {name: value for name, value in metadata.items() if value is not None}
    size = bundle.manifest.configuration
    pixels = np.full((size.height, size.width, 3), level, np.uint8)
    save_image(GeneratedImage(pixels, np.zeros((1, 1, 1, 4), np.float32), chunks), path)
    return path

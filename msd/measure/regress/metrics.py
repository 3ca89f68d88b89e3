"""The metrics of an image against its golden: PSNR, structural similarity, perceptual hash, attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median, median_low

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle, file_facts
from msd.graph.parity import decibels

Pixels = npt.NDArray[np.uint8]
"""An image, (height, width, 3)."""


def psnr(golden: Pixels, new: Pixels) -> float:
    """Return 10·log10(255² / mean squared difference) in dB, infinite for equal images."""
    difference = golden.astype(np.float64) - new
    return decibels(255.0**2 * difference.size, float(np.sum(difference**2)))


def median_decibels(ratios: Sequence[float]) -> float:
    """Return the median; where one of the two in the middle is infinite, the lower one: no mean has both."""
    middle = median(ratios)
    return median_low(ratios) if math.isinf(middle) else middle


def ssim(golden: Pixels, new: Pixels) -> float:
    """Return the mean structural similarity, at most 1, averaged over the three colours.

    As in Wang et al. (2004, doi 10.1109/TIP.2003.819861): Gaussian windows of 11 pixels, σ 1.5, K 0.01 and
    0.03. Images must be at least as large as a window.
    """
    from skimage.metrics import structural_similarity

    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    return float(structural_similarity(golden, new, channel_axis=2, data_range=255, **options))


def hash_distance(golden: Pixels, new: Pixels) -> int:
    """Return the number of bits, of 64, in which the perceptual hashes differ (imagehash's phash, a DCT)."""
    import imagehash
    from PIL import Image

    one, other = (imagehash.phash(Image.fromarray(pixels)) for pixels in (golden, new))
    return int(one - other)


def attributes(pixels: Pixels, prompt: str) -> float | None:
    """Return the share, 0 to 1, of a demo caption's attributes in the image; None for other prompts."""
    from msd.models.demo.captions import BadCaption
    from msd.models.demo.scorer import score

    try:
        return score(pixels, prompt)
    except BadCaption:
        return None


def is_demo(bundle: Bundle) -> bool:
    """Whether a bundle has the demo checkpoint's weights, whose images the scorer can read."""
    return _demo_weights() <= {file.sha256 for file in bundle.manifest.source.files.values()}


@cache
def _demo_weights() -> set[str]:
    from msd.models.demo import CHECKPOINT

    return {file_facts(path).sha256 for path in Path(CHECKPOINT).rglob("*.safetensors")}

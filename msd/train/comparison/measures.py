"""What is measured of images: their distance from the reference's, and the attributes that they show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msd.graph.parity import psnr
from msd.measure.regress import metrics
from msd.models.demo.captions import Attributes, BadCaption, parse
from msd.models.demo.scenes import SIZE
from msd.models.demo.scorer import read
from msd.run.runtime.image import GeneratedImage
from msd.train.comparison.result import ImageDistance, stored


def distance(reference: GeneratedImage, image: GeneratedImage, perceptual: bool) -> ImageDistance:
    """Return how far an image is from the reference's, which has its size.

    `perceptual` adds SSIM, by scikit-image, and the distance of perceptual hashes, by imagehash.
    """
    error = np.linalg.norm(image.latents - reference.latents) / np.linalg.norm(reference.latents)
    pixels = reference.pixels, image.pixels
    return ImageDistance(
        psnr_db=stored(metrics.psnr(*pixels)),
        latent_psnr_db=stored(psnr(reference.latents, image.latents)),
        latent_error=float(error),
        ssim=metrics.ssim(*pixels) if perceptual else None,
        hash_distance=float(metrics.hash_distance(*pixels)) if perceptual else None,
    )


def demo_attributes(images: Sequence[GeneratedImage]) -> list[Attributes] | None:
    """Return the attributes that the prompt of each image names, None unless the model is like the demo.

    That is: its images have the demo's size, and all prompts are captions of the demo's scenes.
    """
    if any(image.pixels.shape != (SIZE, SIZE, 3) for image in images):
        return None
    try:
        return [parse(image.metadata["prompt"]) for image in images]
    except BadCaption:
        return None


def wrong_attributes(image: GeneratedImage, wanted: Attributes) -> tuple[str, ...]:
    """Return the names of the attributes that an image does not show as its caption says, in its order."""
    shown = read(image.pixels)
    return tuple(name for name, value in wanted.items() if shown.get(name) != value)

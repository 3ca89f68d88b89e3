"""The result of a comparison: what `msd compare --json` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from msd.measure.limits import rounded_apart
from msd.measure.regress.metrics import median_decibels
from msd.run.runners.machine import Machine

FORMAT = 1


@dataclass(frozen=True)
class ImageDistance:
    """How far an image is from the reference's, or the median of that over all images.

    `psnr_db` is 10·log10(255² / mean squared difference) of pixels, and `latent_psnr_db` is
    20·log10(max|reference| / rmse) of the final latents: None where both are equal. `latent_error` is
    ‖latents − reference‖ / ‖reference‖. `ssim`, at most 1, and `hash_distance`, of 64 bits, are None where
    they were left out (msd/measure/regress/metrics.py).
    """

    psnr_db: float | None
    latent_psnr_db: float | None
    latent_error: float
    ssim: float | None = None
    hash_distance: float | None = None


@dataclass(frozen=True)
class ComparedImage:
    """An image of a column; `distance` is None in the reference's own.

    `attributes` is the share of a demo caption's attributes that it shows, `wrong` names the others, and
    `clip_score` is 100·max(cosine, 0); each None where that is not measured.
    """

    prompt: str
    seed: int
    distance: ImageDistance | None = None
    attributes: float | None = None
    wrong: tuple[str, ...] | None = None
    clip_score: float | None = None


@dataclass(frozen=True)
class Column:
    """The images of one model at one number of steps.

    `model_sha256` identifies its weights. Each image takes `evaluations` rows of the U-Net: `steps`
    times `passes`, of which there are two with guidance from a pass without the prompt. `distance` is the
    median of the images' own, None for the reference; `attributes` and `clip_score` are means, and
    `all_attributes` is the share of images with all attributes right. `seconds_per_image` is without the
    loading of networks.
    """

    label: str
    model: str
    model_sha256: str
    backend: str
    scheduler: str
    steps: int
    guidance: float
    passes: int
    evaluations: int
    seconds_per_image: float
    distance: ImageDistance | None
    images: tuple[ComparedImage, ...]
    attributes: float | None = None
    all_attributes: float | None = None
    attributes_by_name: dict[str, float] | None = None
    clip_score: float | None = None


@dataclass(frozen=True)
class ComparisonResult:
    """The columns: the reference, the reference at the other's steps unless they are its own, and the other.

    `versions` are those of Python and of the libraries that were there. `clip`: the folder of the CLIP model
    behind the scores, None without one. `at_least_db`: the least median PSNR that was asked of the other
    model's images.
    """

    msd: str
    prompts: int
    seed: int
    columns: tuple[Column, ...]
    machine: Machine
    versions: dict[str, str]
    clip: str | None = None
    at_least_db: float | None = None
    format: int = FORMAT

    @property
    def other(self) -> Column:
        """The column of the model that is compared with the reference."""
        return self.columns[-1]

    @property
    def broken(self) -> str | None:
        """A sentence where the other model's median PSNR is below `at_least_db`, else None."""
        found = self.other.distance
        if self.at_least_db is None or found is None or found.psnr_db is None:
            return None
        if found.psnr_db >= self.at_least_db:
            return None
        ratio = rounded_apart(found.psnr_db, self.at_least_db, 1)
        return f"the median PSNR of {self.other.label} is {ratio} dB, below {self.at_least_db:g} dB"


def median_distance(distances: Sequence[ImageDistance]) -> ImageDistance:
    """Return the median of each number; equal images count as infinitely many decibels."""
    return ImageDistance(
        psnr_db=stored(median_decibels([unstored(each.psnr_db) for each in distances])),
        latent_psnr_db=stored(median_decibels([unstored(each.latent_psnr_db) for each in distances])),
        latent_error=median(each.latent_error for each in distances),
        ssim=_over(median, [each.ssim for each in distances]),
        hash_distance=_over(median, [each.hash_distance for each in distances]),
    )


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, None where a value was not measured."""
    return _over(fmean, values)


def stored(decibels: float) -> float | None:
    """Return decibels as JSON has them: None where two arrays are equal."""
    return None if decibels == math.inf else decibels


def unstored(decibels: float | None) -> float:
    """Return decibels as numbers: infinity where two arrays are equal."""
    return math.inf if decibels is None else decibels


def _over(average: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return average(measured) if len(measured) == len(values) else None

"""Compare new images with golden ones: metrics, thresholds, and a sentence for each broken threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import msd
from msd.errors import BadConfig
from msd.files.wording import counted, plural
from msd.measure.limits import rounded_apart
from msd.measure.regress import metrics
from msd.measure.regress.goldens import Goldens, Origin
from msd.measure.regress.metrics import Pixels
from msd.measure.regress.suite import Suite, SuitePicture, Thresholds

FORMAT = 1


@dataclass(frozen=True)
class ImageComparison:
    """One image. `psnr_db` None means equal to the golden; `attributes` is for the demo's captions only.

    `broken` has a sentence for each threshold that the image breaks, by the threshold's name.
    """

    name: str
    prompt: str
    negative_prompt: str
    seed: int
    psnr_db: float | None
    ssim: float
    hash_distance: int
    attributes: float | None
    broken: dict[str, str]

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key, worst first."""
        return math.inf if self.psnr_db is None else self.psnr_db, self.ssim


@dataclass(frozen=True)
class ThresholdCheck:
    """A threshold for all images together: its limit, and the measured value (None: equal images)."""

    threshold: str
    limit: float
    found: float | None
    broken: str | None


@dataclass(frozen=True)
class Result:
    """The result of a run. `reconverted`: both images come from the same weights, format and place.

    `limits`: the thresholds applied. `pictures`: worst first. `notes`: further remarks, in sentences.
    """

    msd: str
    suite: str
    goldens: Origin
    new: Origin
    reconverted: bool
    limits: Thresholds
    pictures: tuple[ImageComparison, ...]
    checks: tuple[ThresholdCheck, ...]
    notes: tuple[str, ...]
    seconds: float
    format: int = FORMAT

    @property
    def broken(self) -> list[str]:
        """Every broken threshold, in a sentence."""
        of_all = [check.broken for check in self.checks if check.broken]
        return of_all + [sentence for picture in self.pictures for sentence in picture.broken.values()]


def require_scorer(suite: Suite, demo: bool) -> None:
    """Raise BadConfig for a threshold on attributes that msd cannot read from this model's images."""
    if not any(limits and limits.attributes_least for limits in (suite.thresholds, suite.reconverted)):
        return
    if not demo:
        raise BadConfig(
            "attributes_least is for the demo checkpoint, whose scenes msd can read; this is another model:"
            " leave it out"
        )
    from msd.models.demo.captions import parse

    for entry in suite.drawing.pictures:
        parse(entry.prompt)


def compare(
    suite: Suite,
    goldens: Goldens,
    golden: Mapping[str, Pixels],
    new: Mapping[str, Pixels],
    origin: Origin,
    demo: bool,
    seconds: float,
) -> Result:
    """Return the comparison of `new` images with `golden` ones; `demo`: whether captions can be scored.

    `new` may lack some of the suite's.
    """
    again = goldens.origin.can_be_repeated_by(origin)
    limits = suite.reconverted if again and suite.reconverted else suite.thresholds
    images = [
        _compare_one(image, golden[image.name], new[image.name], demo)
        for image in suite.drawing.pictures
        if image.name in new
    ]
    worst_first = sorted(images, key=lambda image: image.rank)
    checked = tuple(_apply_thresholds(image, limits) for image in worst_first)
    notes = tuple(_notes(suite, goldens, origin, again))
    return Result(
        msd=msd.__version__,
        suite=suite.name,
        goldens=goldens.origin,
        new=origin,
        reconverted=again,
        limits=limits,
        pictures=checked,
        checks=tuple(_checks(checked, limits)),
        notes=notes,
        seconds=round(seconds, 3),
    )


def decibels(value: float | None) -> str:
    """Return a stored PSNR as text."""
    return "equal" if value is None else f"{value:.1f} dB"


def _compare_one(entry: SuitePicture, golden: Pixels, new: Pixels, demo: bool) -> ImageComparison:
    ratio = metrics.psnr(golden, new)
    return ImageComparison(
        name=entry.name,
        prompt=entry.prompt,
        negative_prompt=entry.negative_prompt,
        seed=entry.seed,
        psnr_db=_stored(ratio),
        ssim=round(metrics.ssim(golden, new), 6),
        hash_distance=metrics.hash_distance(golden, new),
        attributes=metrics.attributes(new, entry.prompt) if demo else None,
        broken={},
    )


def _stored(ratio: float) -> float | None:
    return None if ratio == math.inf else round(ratio, 3)


def _apply_thresholds(picture: ImageComparison, limits: Thresholds) -> ImageComparison:
    """Return the image with a sentence for each threshold that it breaks."""
    broken: dict[str, str] = {}
    if limits.psnr_least is not None and picture.psnr_db is not None and picture.psnr_db < limits.psnr_least:
        ratio = rounded_apart(picture.psnr_db, limits.psnr_least, 1)
        broken["psnr_least"] = f"PSNR is {ratio} dB, below {limits.psnr_least:g} dB"
    if limits.ssim_least is not None and picture.ssim < limits.ssim_least:
        similarity = rounded_apart(picture.ssim, limits.ssim_least, 4)
        broken["ssim_least"] = f"SSIM is {similarity}, below {limits.ssim_least:g}"
    bits = picture.hash_distance
    if limits.hash_distance_most is not None and bits > limits.hash_distance_most:
        broken["hash_distance_most"] = (
            f"{counted(bits, 'bit')} of the perceptual hash {plural(bits, 'differs', 'differ')},"
            f" more than {limits.hash_distance_most}"
        )
    sentences = {name: f"{picture.name}: {sentence} ({name})" for name, sentence in broken.items()}
    return replace(picture, broken=sentences)


def _checks(pictures: Sequence[ImageComparison], limits: Thresholds) -> Iterator[ThresholdCheck]:
    """Yield the checks of all images together."""
    if (limit := limits.psnr_median) is not None:
        middle = _stored(metrics.median_decibels([p.rank[0] for p in pictures]))
        low = middle is not None and middle < limit
        shown = "" if middle is None else rounded_apart(middle, limit, 1)
        sentence = f"the median PSNR is {shown} dB, below {limit:g} dB (psnr_median)"
        yield ThresholdCheck("psnr_median", limit, middle, sentence if low else None)
    scores = [p.attributes for p in pictures if p.attributes is not None]
    if (limit := limits.attributes_least) is not None and scores:
        share = round(fmean(scores), 6)
        percent = rounded_apart(100 * share, 100 * limit, 1)
        sentence = f"{percent}% of the attributes are right, less than {100 * limit:g}% (attributes_least)"
        yield ThresholdCheck("attributes_least", limit, share, sentence if share < limit else None)


def _notes(suite: Suite, goldens: Goldens, new: Origin, again: bool) -> Iterator[str]:
    """Yield remarks for readers of the metrics."""
    old = goldens.origin
    if old.model == new.model:
        yield f"Goldens and new images come from the same model, {new.model[:12]}."
    else:
        of_goldens = f"{old.model[:12]} ({old.source}, recipe {old.recipe}, msd {old.msd})"
        of_new = f"{new.model[:12]} (recipe {new.recipe}, msd {new.msd})"
        yield f"Goldens come from model {of_goldens}; new images from {of_new}."
    if again and suite.reconverted:
        yield "Both have the same weights in the same format: the limits of [reconverted] apply."
    elif suite.reconverted:
        what = "the place" if old.weights == new.weights else "the checkpoint's files or the recipe"
        yield f"The limits of [reconverted] do not apply: {what} changed since the goldens."
    if not old.has_schedule_of(new):
        names = (
            f"goldens with {old.scheduler}, new images with {new.scheduler}"
            if old.scheduler != new.scheduler
            else f"{new.scheduler} has other settings than for the goldens"
        )
        yield f"The schedules differ: {names}."
    if (old.backend, old.precision) != (new.backend, new.precision):
        places = (
            f"goldens on {old.backend} in {old.precision}, new images on {new.backend} in {new.precision}"
        )
        yield f"Generated in different places: {places}."
    known = {name: new.versions[name] for name in old.versions if name in new.versions}
    if others := [f"{n} {old.versions[n]}, now {v}" for n, v in known.items() if old.versions[n] != v]:
        yield f"The goldens were generated by {'; '.join(others)}."
    if (goldens.thresholds, goldens.reconverted) != (suite.thresholds, suite.reconverted):
        yield "The suite's thresholds have changed since the goldens were generated."

"""New pictures against golden ones: the figures of each, the thresholds of all, and what broke in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import msd
from msd.errors import BadConfig
from msd.regress import metrics
from msd.regress.goldens import Goldens, Origin
from msd.regress.metrics import Pixels
from msd.regress.suite import Entry, Suite, Thresholds

FORMAT = 1


@dataclass(frozen=True)
class Compared:
    """One picture. `psnr_db` None means equal; `attributes` only for the demo's captions.

    `broken`: each threshold that it breaks, in a sentence, by the threshold's name.
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
        """What puts the worst picture first."""
        return math.inf if self.psnr_db is None else self.psnr_db, self.ssim


@dataclass(frozen=True)
class Check:
    """A threshold for all pictures together: what was asked, what was found (None: equal pictures)."""

    threshold: str
    limit: float
    found: float | None
    broken: str | None


@dataclass(frozen=True)
class Result:
    """What a run found. `reconverted`: the goldens' weights, converted and drawn in the same way again.

    `limits`: the thresholds that counted. `pictures`: worst first. `notes`: what else to know, in sentences.
    """

    msd: str
    suite: str
    goldens: Origin
    new: Origin
    reconverted: bool
    limits: Thresholds
    pictures: tuple[Compared, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    seconds: float
    format: int = FORMAT

    @property
    def broken(self) -> list[str]:
        """Every broken threshold, in a sentence."""
        of_all = [check.broken for check in self.checks if check.broken]
        return of_all + [sentence for picture in self.pictures for sentence in picture.broken.values()]


def require_scorer(suite: Suite, demo: bool) -> None:
    """Raise BadConfig where attributes are asked for that nothing here can read from the pictures."""
    asked = [limits for limits in (suite.thresholds, suite.reconverted) if limits and limits.attributes_least]
    if not asked:
        return
    if not demo:
        raise BadConfig(
            "attributes_least is for the demo checkpoint, whose scenes msd can read; this is another model:"
            " leave it out"
        )
    from msd.demo.captions import parse

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
    """Return how far `new` pictures are from `golden` ones; `demo`: whether captions can be scored."""
    again = goldens.origin.can_be_repeated_by(origin)
    limits = suite.reconverted if again and suite.reconverted else suite.thresholds
    found = [_compared(entry, golden[entry.name], new[entry.name], demo) for entry in suite.drawing.pictures]
    judged = tuple(_judged(each, limits) for each in sorted(found, key=lambda each: each.rank))
    notes = tuple(_notes(suite, goldens, origin, again))
    return Result(
        msd.__version__,
        suite.name,
        goldens.origin,
        origin,
        again,
        limits,
        judged,
        tuple(_checks(judged, limits)),
        notes,
        round(seconds, 3),
    )


def decibels(value: float | None) -> str:
    """Return a stored PSNR in words."""
    return "equal" if value is None else f"{value:.1f} dB"


def _compared(entry: Entry, golden: Pixels, new: Pixels, demo: bool) -> Compared:
    ratio = metrics.psnr(golden, new)
    return Compared(
        entry.name,
        entry.prompt,
        entry.negative_prompt,
        entry.seed,
        _stored(ratio),
        round(metrics.ssim(golden, new), 6),
        metrics.hash_distance(golden, new),
        metrics.attributes(new, entry.prompt) if demo else None,
        {},
    )


def _stored(ratio: float) -> float | None:
    return None if ratio == math.inf else round(ratio, 3)


def _judged(picture: Compared, limits: Thresholds) -> Compared:
    """Return the picture with what it breaks."""
    broken: dict[str, str] = {}
    if limits.psnr_least is not None and picture.psnr_db is not None and picture.psnr_db < limits.psnr_least:
        broken["psnr_least"] = f"PSNR is {picture.psnr_db:.1f} dB, below {limits.psnr_least:g} dB"
    if limits.ssim_least is not None and picture.ssim < limits.ssim_least:
        broken["ssim_least"] = f"SSIM is {picture.ssim:.4f}, below {limits.ssim_least:g}"
    if limits.hash_distance_most is not None and picture.hash_distance > limits.hash_distance_most:
        broken["hash_distance_most"] = (
            f"{picture.hash_distance} bits of the perceptual hash differ,"
            f" more than {limits.hash_distance_most}"
        )
    sentences = {name: f"{picture.name}: {said} ({name})" for name, said in broken.items()}
    return replace(picture, broken=sentences)


def _checks(pictures: Sequence[Compared], limits: Thresholds) -> Iterator[Check]:
    """Yield what is asked of all pictures together."""
    if (limit := limits.psnr_median) is not None:
        middle = _stored(median(p.rank[0] for p in pictures))
        low = middle is not None and middle < limit
        said = f"the median PSNR is {decibels(middle)}, below {limit:g} dB (psnr_median)"
        yield Check("psnr_median", limit, middle, said if low else None)
    scores = [p.attributes for p in pictures if p.attributes is not None]
    if (limit := limits.attributes_least) is not None and scores:
        share = round(fmean(scores), 6)
        said = f"{share:.1%} of the attributes are right, less than {limit:.1%} (attributes_least)"
        yield Check("attributes_least", limit, share, said if share < limit else None)


def _notes(suite: Suite, goldens: Goldens, new: Origin, again: bool) -> Iterator[str]:
    """Yield what whoever reads the figures should know."""
    old = goldens.origin
    if old.model == new.model:
        yield f"Goldens and pictures come from the same model, {new.model[:12]}."
    else:
        was = f"{old.model[:12]} ({old.source}, recipe {old.recipe}, msd {old.msd})"
        now = f"{new.model[:12]} (recipe {new.recipe}, msd {new.msd})"
        yield f"Goldens come from model {was}; pictures from {now}."
    if again and suite.reconverted:
        yield "Both have the same weights, stored in the same way: the limits of [reconverted] count."
    if (old.backend, old.precision) != (new.backend, new.precision):
        places = f"goldens on {old.backend} in {old.precision}, pictures on {new.backend} in {new.precision}"
        yield f"Drawn in different places: {places}."
    if (goldens.thresholds, goldens.reconverted) != (suite.thresholds, suite.reconverted):
        yield "The suite's thresholds are not those it had when the goldens were made."

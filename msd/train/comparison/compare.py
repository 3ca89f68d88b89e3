"""Compare two models: B's images with A's, and so A's own at B's number of steps, the honest baseline."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msd
from msd.errors import BadConfig
from msd.files.packages import installed_versions, require_packages
from msd.run.runners.machine import Machine, this_machine
from msd.run.runtime.image import GeneratedImage
from msd.run.runtime.request import require_seeds
from msd.train.comparison.columns import measure_column
from msd.train.comparison.generated import GeneratedColumn, OnColumn, generate_columns, plan_columns
from msd.train.comparison.model import BATCH, ComparedModel, open_model
from msd.train.comparison.result import ComparisonResult

CLIP_PACKAGES = "torch", "transformers"
LIBRARIES = "ai-edge-litert", "diffusers", "numpy", "torch", "transformers"
"""Those that decide images."""


@dataclass(frozen=True)
class Comparison:
    """A result, and the images of each of its columns, in the order of the prompts."""

    result: ComparisonResult
    images: tuple[Sequence[GeneratedImage], ...]


OnStopped = Callable[[Comparison], None]
"""Called with the comparison of the images that were made before something ended it."""


def compare(
    reference: ComparedModel,
    other: ComparedModel,
    prompts: Sequence[str],
    *,
    seed: int = 0,
    batch: int = BATCH,
    device: str | None = None,
    perceptual: bool = True,
    clip: Path | None = None,
    at_least_db: float | None = None,
    on_column: OnColumn | None = None,
    on_stopped: OnStopped | None = None,
) -> Comparison:
    """Return the comparison of `other` with `reference` on `prompts`, the i-th from the noise of `seed` + i.

    Between both stands the reference at the other's number of steps, unless these are its own. `batch` and
    `device` are those of `open_model`. Without `perceptual`, SSIM and perceptual hashes are left out, and
    neither scikit-image nor imagehash is needed. `clip` is the folder of transformers' CLIPModel that scores
    how images follow their prompts. `at_least_db` only enters the result.

    Where an error or Ctrl-C ends it after the first image, `on_stopped` gets what is there: the models begun,
    on the first prompts that all of these have images of, without CLIP scores.

    Raises BadConfig for no prompts, models that cannot be compared and missing packages, and what
    `open_model`, `clip_scores` and `Pipeline.generate_all` raise.
    """
    if not prompts:
        raise BadConfig("there are no prompts to compare images of; give at least one")
    require_seeds(seed, len(prompts))
    if perceptual:
        require_packages("a comparison of images", "regress", "scikit-image", "imagehash")
    if clip:
        _require_clip(clip)
    plans = plan_columns(open_model(reference, batch, device), open_model(other, batch, device))
    columns = [*map(GeneratedColumn, plans)]
    measured = partial(_measured, seed=seed, machine=this_machine(), perceptual=perceptual)
    try:
        generate_columns(columns, prompts, seed, on_column)
        scores = _scores(clip, [column.images for column in columns], batch, device)
        return measured(columns, scores=scores, clip=clip, at_least_db=at_least_db)
    except BaseException:
        if on_stopped and columns[0].images:
            on_stopped(measured(_in_common(columns)))
        raise


def _in_common(columns: Sequence[GeneratedColumn]) -> list[GeneratedColumn]:
    """Return the columns that have images, with as many as the shortest has."""
    begun = [column for column in columns if column.images]
    count = min(len(column.images) for column in begun)
    return [column.first(count) for column in begun]


def _measured(
    columns: Sequence[GeneratedColumn],
    *,
    seed: int,
    machine: Machine,
    perceptual: bool,
    scores: Sequence[Sequence[float] | None] | None = None,
    clip: Path | None = None,
    at_least_db: float | None = None,
) -> Comparison:
    """Return the comparison of columns, which have equally many images, with the first of them."""
    images = tuple(column.images for column in columns)
    result = ComparisonResult(
        msd=msd.__version__,
        prompts=len(images[0]),
        seed=seed,
        columns=tuple(
            measure_column(column, None if column is columns[0] else images[0], perceptual, of_column)
            for column, of_column in zip(columns, scores or [None] * len(columns), strict=True)
        ),
        machine=machine,
        versions=_versions(),
        clip=None if clip is None else str(clip),
        at_least_db=at_least_db,
    )
    return Comparison(result, images)


def _require_clip(folder: Path) -> None:
    """Raise BadConfig or BadCheckpoint where no CLIP scores are to be had, before images are generated."""
    require_packages(folder, "train", *CLIP_PACKAGES)
    from msd.train.comparison.clip_score import require_clip

    require_clip(folder)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **installed_versions(*LIBRARIES)}


def _scores(
    clip: Path | None, columns: Sequence[Sequence[GeneratedImage]], batch: int, device: str | None
) -> list[list[float]] | None:
    if clip is None:
        return None
    from msd.train.comparison.clip_score import clip_scores

    return clip_scores(clip, columns, batch, device)

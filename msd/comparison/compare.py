"""Compare two models: B's images with A's, and so A's own at B's number of steps, the honest baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msd
from msd.comparison.columns import measure_column
from msd.comparison.generated import OnColumn, generate_columns, plan_columns
from msd.comparison.model import BATCH, ComparedModel, open_model
from msd.comparison.result import ComparisonResult
from msd.errors import BadConfig
from msd.runtime.image import GeneratedImage


@dataclass(frozen=True)
class Comparison:
    """A result, and the images of each of its columns, in the order of the prompts."""

    result: ComparisonResult
    images: tuple[Sequence[GeneratedImage], ...]


def compare(
    reference: ComparedModel,
    other: ComparedModel,
    prompts: Sequence[str],
    *,
    seed: int = 0,
    batch: int = BATCH,
    device: str | None = None,
    perceptual: bool = True,
    at_least_db: float | None = None,
    on_column: OnColumn | None = None,
) -> Comparison:
    """Return the comparison of `other` with `reference` on `prompts`, the i-th from the noise of `seed` + i.

    Between both stands the reference at the other's number of steps, unless these are its own. `batch` and
    `device` are those of `open_model`. Without `perceptual`, SSIM and perceptual hashes are left out, and
    neither scikit-image nor imagehash is needed. `at_least_db` only enters the result.

    Raises BadConfig for no prompts and for models that cannot be compared, and what `open_model` and
    `Pipeline.generate_all` raise.
    """
    if not prompts:
        raise BadConfig("there are no prompts to compare images of; give at least one")
    plans = plan_columns(open_model(reference, batch, device), open_model(other, batch, device))
    first, *others = generate_columns(plans, prompts, seed, on_column)
    columns = [measure_column(first, None, perceptual)]
    columns += [measure_column(each, first.images, perceptual) for each in others]
    result = ComparisonResult(
        msd=msd.__version__,
        prompts=len(prompts),
        seed=seed,
        columns=tuple(columns),
        at_least_db=at_least_db,
    )
    return Comparison(result, tuple(each.images for each in (first, *others)))

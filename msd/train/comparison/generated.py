"""The columns of a comparison, generated: each model's images of all prompts, from the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from msd.run.runtime.image import GeneratedImage
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.train.comparison.model import OpenedModel, require_comparable

OnColumn = Callable[[str, int, int], None]
"""Called after each step of each image with the column's label, its steps done, and their number."""


@dataclass(frozen=True)
class ColumnPlan:
    """A column to generate: a model at a number of steps. `evaluations` of the U-Net, for each image."""

    label: str
    opened: OpenedModel
    steps: int
    evaluations: int


@dataclass(frozen=True)
class GeneratedColumn:
    """A column's images, in the order of the prompts, and the seconds that they took together."""

    plan: ColumnPlan
    images: Sequence[GeneratedImage]
    seconds: float


def plan_columns(reference: OpenedModel, other: OpenedModel) -> list[ColumnPlan]:
    """Return the reference, the reference at the other's steps unless these are its own, and the other.

    Raises BadConfig for models that cannot be compared, and for steps that a scheduler cannot take.
    """
    require_comparable(reference, other)
    own, others = reference.images.steps, other.images.steps
    at_others = [_plan("A", reference, others)] if own != others else []
    return [_plan("A", reference, own), *at_others, _plan("B", other, others)]


def generate_columns(
    plans: Sequence[ColumnPlan], prompts: Sequence[str], seed: int, on_column: OnColumn | None = None
) -> Iterator[GeneratedColumn]:
    """Yield the columns; the i-th image of each starts from the noise of `seed` + i.

    A model's networks are in memory for all of its columns, which stand together, and no longer.
    """
    for opened in dict.fromkeys(plan.opened for plan in plans):
        with opened.pipeline() as pipeline:
            for plan in plans:
                if plan.opened is opened:
                    yield _generate(pipeline, plan, prompts, seed, on_column)


def _plan(letter: str, opened: OpenedModel, steps: int) -> ColumnPlan:
    return ColumnPlan(
        label=f"{letter}, {steps} step{'s' * (steps > 1)}",
        opened=opened,
        steps=steps,
        evaluations=opened.runs(steps) * opened.guidance.rows,
    )


def _generate(
    pipeline: Pipeline, plan: ColumnPlan, prompts: Sequence[str], seed: int, on_column: OnColumn | None
) -> GeneratedColumn:
    guidance = plan.opened.images.guidance
    requests = [
        Request(prompt, seed=seed + i, steps=plan.steps, guidance=guidance)
        for i, prompt in enumerate(prompts)
    ]
    start = time.perf_counter()
    images = pipeline.generate_all(requests, on_column and partial(_tell, on_column, plan.label))
    return GeneratedColumn(plan, images, time.perf_counter() - start)


def _tell(on_column: OnColumn, label: str, done: int, total: int, seconds: float) -> None:
    on_column(label, done, total)

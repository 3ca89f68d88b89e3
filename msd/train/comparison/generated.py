"""The columns of a comparison, generated: each model's images of all prompts, from the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from msd.files.wording import counted
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


@dataclass
class GeneratedColumn:
    """A column's images so far, in the order of the prompts, and the seconds that they took together."""

    plan: ColumnPlan
    images: list[GeneratedImage] = field(default_factory=list)
    seconds: float = 0.0

    def first(self, count: int) -> GeneratedColumn:
        """Return the column with its first `count` images, each in the seconds of all by the mean."""
        return GeneratedColumn(self.plan, self.images[:count], count * self.seconds / len(self.images))


def plan_columns(reference: OpenedModel, other: OpenedModel) -> list[ColumnPlan]:
    """Return the reference, the reference at the other's steps unless these are its own, and the other.

    Raises BadConfig for models that cannot be compared, and for steps that a scheduler cannot take.
    """
    require_comparable(reference, other)
    own, others = reference.images.steps, other.images.steps
    at_others = [_plan("A", reference, others)] if own != others else []
    return [_plan("A", reference, own), *at_others, _plan("B", other, others)]


def generate_columns(
    columns: Sequence[GeneratedColumn], prompts: Sequence[str], seed: int, on_column: OnColumn | None = None
) -> None:
    """Add the images to the columns, each once it is made; the i-th of each is from the noise of `seed` + i.

    A model's networks are in memory for all of its columns, which stand together, and no longer.
    """
    for opened in dict.fromkeys(column.plan.opened for column in columns):
        with opened.pipeline() as pipeline:
            for column in columns:
                if column.plan.opened is opened:
                    _generate(pipeline, column, prompts, seed, on_column)


def _plan(letter: str, opened: OpenedModel, steps: int) -> ColumnPlan:
    return ColumnPlan(
        label=f"{letter}, {counted(steps, 'step')}",
        opened=opened,
        steps=steps,
        evaluations=opened.runs(steps) * opened.guidance.rows,
    )


def _generate(
    pipeline: Pipeline,
    column: GeneratedColumn,
    prompts: Sequence[str],
    seed: int,
    on_column: OnColumn | None,
) -> None:
    plan, start = column.plan, time.perf_counter()
    guidance = plan.opened.images.guidance
    requests = [
        Request(prompt, seed=seed + i, steps=plan.steps, guidance=guidance)
        for i, prompt in enumerate(prompts)
    ]

    def on_image(image: GeneratedImage) -> None:
        column.images.append(image)
        column.seconds = time.perf_counter() - start

    pipeline.generate_all(requests, on_column and partial(_tell, on_column, plan.label), on_image=on_image)


def _tell(on_column: OnColumn, label: str, done: int, total: int, seconds: float) -> None:
    on_column(label, done, total)

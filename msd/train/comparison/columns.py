"""A generated column measured: against the reference's images, and against the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msd.models.demo.captions import Attributes
from msd.run.runtime.image import GeneratedImage
from msd.train.comparison.generated import GeneratedColumn
from msd.train.comparison.measures import demo_attributes, distance, wrong_attributes
from msd.train.comparison.result import Column, ComparedImage, mean, median_distance


def measure_column(
    column: GeneratedColumn,
    reference: Sequence[GeneratedImage] | None,
    perceptual: bool = True,
    scores: Sequence[float] | None = None,
) -> Column:
    """Return a column with all that is measured of it.

    `reference` are the images to measure distances from, None for their own column; `scores` are CLIP's.
    """
    images, plan = column.images, column.plan
    captions = demo_attributes(images)
    nothing = [None] * len(images)
    measured = [
        _measure(*each, perceptual)
        for each in zip(images, reference or nothing, captions or nothing, scores or nothing, strict=True)
    ]
    distances = [each.distance for each in measured if each.distance]
    return Column(
        label=plan.label,
        model=str(plan.opened.model.folder),
        model_sha256=plan.opened.bundle.model_hash,
        backend=images[0].metadata["backend"],
        scheduler=images[0].metadata["scheduler"],
        steps=plan.steps,
        guidance=plan.opened.images.guidance,
        passes=plan.opened.guidance.rows,
        evaluations=plan.evaluations,
        seconds_per_image=column.seconds / len(images),
        distance=median_distance(distances) if distances else None,
        clip_score=mean([each.clip_score for each in measured]),
        images=tuple(measured),
        **(_attributes(measured, captions) if captions else {}),
    )


def _measure(
    image: GeneratedImage,
    reference: GeneratedImage | None,
    caption: Attributes | None,
    score: float | None,
    perceptual: bool,
) -> ComparedImage:
    wrong = None if caption is None else wrong_attributes(image, caption)
    return ComparedImage(
        prompt=image.metadata["prompt"],
        seed=image.metadata["seed"],
        distance=None if reference is None else distance(reference, image, perceptual),
        attributes=1 - len(wrong) / len(caption) if caption and wrong is not None else None,
        wrong=wrong,
        clip_score=score,
    )


def _attributes(images: Sequence[ComparedImage], captions: Sequence[Attributes]) -> dict[str, Any]:
    """Return the mean share of attributes, the share of images with all right, and each attribute's."""
    names = dict.fromkeys(name for caption in captions for name in caption)
    pairs = [(image.wrong or (), caption) for image, caption in zip(images, captions, strict=True)]
    by_name = {
        name: mean([float(name not in wrong) for wrong, caption in pairs if name in caption])
        for name in names
    }
    return {
        "attributes": mean([image.attributes for image in images]),
        "all_attributes": mean([float(not image.wrong) for image in images]),
        "attributes_by_name": by_name,
    }

"""What an app knows of a scheduler: tables of coefficients, and those for images that begin from an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig
from msd.runtime.needs import inpaints
from msd.runtime.scheduler import Scheduler
from msd.runtime.step import Step

STRENGTHS = tuple(round(tenth / 10, 1) for tenth in range(1, 11))
"""The strengths that an app offers; tables of some schedulers differ in more than their beginning."""


@dataclass(frozen=True)
class Schedule:
    """The schedule for one number of steps, as in `msd.runtime.step.StepTable`."""

    count: int
    start: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class ImageSchedule:
    """The schedule of an image that begins from an image, for `count` steps at a `strength` above 0."""

    count: int
    strength: float
    schedule: Schedule


@dataclass(frozen=True)
class ImageFacts:
    """How a model begins from an image.

    `encoder` is the role of the network that encodes images, whose latents are multiplied by
    `scaling_factor`. `inpaints`: the U-Net takes a mask and the masked image beside the latents.
    """

    encoder: str
    scaling_factor: float
    inpaints: bool
    schedules: tuple[ImageSchedule, ...]


def schedules(scheduler: Scheduler, counts: Iterable[int]) -> tuple[Schedule, ...]:
    """Return a schedule for each number of steps; raises BadConfig for an impossible one."""
    tables = {count: scheduler.table(count) for count in dict.fromkeys(counts)}
    return tuple(Schedule(count, table.start, tuple(table.steps)) for count, table in tables.items())


def image_facts(bundle: Bundle, scheduler: Scheduler, counts: Iterable[int]) -> ImageFacts | None:
    """Return how a bundle's model begins from an image; None for a bundle without an image encoder.

    Raises BadBundle for a model that repaints a part of an image in a bundle without one.
    """
    encoder = bundle.family.image_encoder
    if encoder is None or encoder not in bundle.manifest.components:
        if inpaints(bundle):
            raise BadBundle(
                f"the model in {bundle.folder} repaints a part of an image, and no file in it encodes one;"
                f" convert with --also {encoder}"
            )
        return None
    settings = bundle.manifest.configuration.components[encoder]
    return ImageFacts(
        encoder=encoder,
        scaling_factor=settings["scaling_factor"],
        inpaints=inpaints(bundle),
        schedules=tuple(_image_schedules(scheduler, counts)),
    )


def _image_schedules(scheduler: Scheduler, counts: Iterable[int]) -> Iterator[ImageSchedule]:
    for count in dict.fromkeys(counts):
        for strength in STRENGTHS:
            try:
                table = scheduler.table(count, strength)
            except BadConfig:
                continue
            yield ImageSchedule(count, strength, Schedule(len(table.steps), table.start, tuple(table.steps)))

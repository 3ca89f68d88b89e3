"""What an app knows of a scheduler: tables of coefficients, and those for images that begin from an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig
from msd.run.runtime.needs import takes_mask
from msd.run.runtime.scheduler import Scheduler
from msd.run.runtime.step import Step, StepTable

STRENGTHS = tuple(round(tenth / 10, 1) for tenth in range(1, 11))
"""The strengths that an app offers; tables of some schedulers differ in more than their beginning."""


@dataclass(frozen=True)
class Schedule:
    """The schedule for one number of steps, as in `msd.run.runtime.step.StepTable`.

    `count` steps are asked for, and `runs` of the denoiser made, one for each of `steps`: some schedulers run
    it twice a step, and an image to begin with leaves a part.
    """

    count: int
    runs: int
    start: float
    steps: tuple[Step, ...]

    @staticmethod
    def of(count: int, table: StepTable) -> Schedule:
        """Return the schedule of the table for `count` steps."""
        return Schedule(count, len(table.steps), table.start, tuple(table.steps))


@dataclass(frozen=True)
class ImageSchedule:
    """The schedule of an image that begins from an image, at a `strength` above 0."""

    strength: float
    schedule: Schedule


@dataclass(frozen=True)
class ImageFacts:
    """How a model reads an image.

    `initial` is the value that generation begins from, None where the image only steers. `required`: there is
    none without an image; `inpaints`: none without a mask, which a network takes.
    """

    initial: str | None
    required: bool
    inpaints: bool
    schedules: tuple[ImageSchedule, ...]


def schedules(scheduler: Scheduler, counts: Iterable[int]) -> tuple[Schedule, ...]:
    """Return a schedule for each number of steps; raises BadConfig for an impossible one."""
    return tuple(Schedule.of(count, scheduler.table(count)) for count in dict.fromkeys(counts))


def image_facts(bundle: Bundle, scheduler: Scheduler, counts: Iterable[int]) -> ImageFacts | None:
    """Return how a bundle's model reads an image; None for one that does not.

    Raises BadBundle for a model that repaints a part of an image in a bundle without an image encoder.
    """
    wiring, inpaints = bundle.wiring, takes_mask(bundle)
    if not wiring.of_images:
        if inpaints and bundle.family.image_encoder:
            raise BadBundle(
                f"the model in {bundle.folder} repaints a part of an image, and no file in it encodes one;"
                f" convert with --also {bundle.family.image_encoder.name}"
            )
        return None
    return ImageFacts(
        initial=wiring.initial.outputs[0].value if wiring.initial else None,
        required=bool(wiring.needed_pixels),
        inpaints=inpaints,
        schedules=tuple(_image_schedules(scheduler, counts)) if wiring.initial else (),
    )


def _image_schedules(scheduler: Scheduler, counts: Iterable[int]) -> Iterator[ImageSchedule]:
    """Yield the schedules that begin from an image, but for strengths too small to leave a step."""
    for count in dict.fromkeys(counts):
        for strength in STRENGTHS:
            try:
                table = scheduler.table(count, strength)
            except BadConfig:
                continue
            yield ImageSchedule(strength, Schedule.of(count, table))

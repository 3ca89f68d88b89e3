"""Generate a suite's images with a bundle, and compare them with its goldens or make them the goldens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msd.errors import BadGoldens
from msd.measure.regress import goldens as store
from msd.measure.regress import metrics
from msd.measure.regress.compare import Result, compare, decibels, require_scorer
from msd.measure.regress.goldens import Origin
from msd.measure.regress.metrics import Pixels
from msd.measure.regress.suite import Suite, SuitePicture
from msd.run.runtime.image import GeneratedImage
from msd.run.runtime.needs import require_prompts_suffice
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.step_counter import OnStep

ByName = dict[str, GeneratedImage]

OnStopped = Callable[[Result], None]
"""Called with the comparison of the images that were made before something ended it."""

PROMPTS_ALONE = "the images of a suite are of prompts alone"


@dataclass(frozen=True)
class Regression:
    """A result and its images, by name."""

    result: Result
    golden: dict[str, Pixels]
    new: ByName


@dataclass(frozen=True)
class Guard:
    """A suite, a pipeline and goldens that match. `demo`: whether captions can be scored."""

    suite: Suite
    pipeline: Pipeline
    goldens: store.Goldens
    golden: dict[str, Pixels]
    demo: bool

    def regress(
        self, on_step: OnStep | None = None, on_stopped: OnStopped = lambda result: None
    ) -> Regression:
        """Generate the images and compare them with the goldens; raises as `Pipeline.generate_all` does.

        `on_stopped` gets the images that were made before that, or before Ctrl-C, without the thresholds that
        are for all of them together.
        """
        start, made = time.perf_counter(), list[GeneratedImage]()
        try:
            images = self.pipeline.generate_all(self.suite.drawing.requests, on_step, on_image=made.append)
            new = _by_name(self.suite.drawing.pictures, images)
            return Regression(self._compare(new, time.perf_counter() - start), self.golden, new)
        except BaseException:
            if made:
                entries = self.suite.drawing.pictures[: len(made)]
                result = self._compare(_by_name(entries, made), time.perf_counter() - start)
                on_stopped(replace(result, checks=()))
            raise

    def _compare(self, new: ByName, seconds: float) -> Result:
        pixels = {name: picture.pixels for name, picture in new.items()}
        origin = Origin.of(self.pipeline)
        result = compare(self.suite, self.goldens, self.golden, pixels, origin, self.demo, seconds)
        return replace(result, notes=(*result.notes, *suite_remarks(self.suite, self.pipeline)))


def guard(suite: Suite, pipeline: Pipeline, folder: Path) -> Guard:
    """Return the guard of a pipeline: the suite and the goldens in `folder`, checked.

    Raises BadGoldens for goldens that are missing, damaged, another suite's or of another size, and BadConfig
    or BadCaption for thresholds that do not apply to this model and for one that reads an image.
    """
    require_prompts_suffice(pipeline.bundle, PROMPTS_ALONE)
    goldens = store.load(folder)
    store.require_same_drawing(goldens, suite, folder)
    golden = store.read_pictures(folder, goldens)
    demo = metrics.is_demo(pipeline.bundle)
    require_scorer(suite, demo)
    _require_size(goldens, pipeline, folder)
    return Guard(suite=suite, pipeline=pipeline, goldens=goldens, golden=golden, demo=demo)


def require_updatable(suite: Suite, pipeline: Pipeline, folder: Path) -> None:
    """Raise OutputExists where the folder has other files, and the errors of `guard` for the model."""
    require_prompts_suffice(pipeline.bundle, PROMPTS_ALONE)
    store.require_replaceable(folder)
    require_scorer(suite, metrics.is_demo(pipeline.bundle))


def update(suite: Suite, pipeline: Pipeline, folder: Path, on_step: OnStep | None = None) -> dict[str, str]:
    """Replace the goldens by the pipeline's images; return a phrase with the change of each, by name.

    Raises OutputExists where the folder has other files, OutputUnwritable, and what `Pipeline.generate_all`
    raises; the old goldens then stay.
    """
    require_updatable(suite, pipeline, folder)
    new = _by_name(suite.drawing.pictures, pipeline.generate_all(suite.drawing.requests, on_step))
    old = _earlier(folder)
    store.write(folder, suite, new, Origin.of(pipeline))
    changes = {name: _change(old.get(name), picture.pixels) for name, picture in new.items()}
    return changes | {name: "gone" for name in old if name not in new}


def suite_remarks(suite: Suite, pipeline: Pipeline) -> tuple[str, ...]:
    """Return what is not used of the suite's requests: each sentence once, with the images it is about."""
    about: dict[str, list[str]] = {}
    for picture, request in zip(suite.drawing.pictures, suite.drawing.requests, strict=True):
        for remark in pipeline.remarks(request):
            about.setdefault(remark, []).append(picture.name)
    every = len(suite.drawing.pictures)
    return tuple(
        f"{remark}." if len(names) == every else f"{', '.join(names)}: {remark}."
        for remark, names in about.items()
    )


def _by_name(entries: Sequence[SuitePicture], made: Sequence[GeneratedImage]) -> ByName:
    return {entry.name: image for entry, image in zip(entries, made, strict=True)}


def _require_size(goldens: store.Goldens, pipeline: Pipeline, folder: Path) -> None:
    """Refuse a bundle of another image size before generating takes minutes."""
    bundle, size = pipeline.bundle, pipeline.bundle.manifest.configuration
    if (size.height, size.width) != (goldens.height, goldens.width):
        raise BadGoldens(
            f"{folder} has images of {goldens.width}×{goldens.height} pixels, and {bundle.folder} generates "
            f"{size.width}×{size.height}; convert for that size, or {store.RENEW}"
        )


def _earlier(folder: Path) -> dict[str, Pixels]:
    """Return the old goldens that can still be read, by name."""
    try:
        goldens = store.load(folder)
    except BadGoldens:
        return {}
    pictures: dict[str, Pixels] = {}
    for name in goldens.pixels:
        try:
            pictures[name] = store.read_picture(folder, name, goldens)
        except BadGoldens:
            continue
    return pictures


def _change(old: Pixels | None, new: Pixels) -> str:
    if old is None:
        return "new"
    if old.shape != new.shape:
        return f"{new.shape[1]}×{new.shape[0]} pixels instead of {old.shape[1]}×{old.shape[0]}"
    ratio = metrics.psnr(old, new)
    return "unchanged" if ratio == float("inf") else f"changed: PSNR {decibels(ratio)} against the old one"

"""The folder of golden images: a PNG for each image of a suite, and goldens.json, which describes them.

    configs/suites/demo/
        goldens.json    which suite and model they come from
        hearts.png …

A new set replaces the old one entirely or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import msd
from msd.bundle import Bundle
from msd.errors import BadGoldens, OutputExists
from msd.files import schema
from msd.files.fingerprint import fingerprint
from msd.files.publication import complete, contents, publish, recover, staged
from msd.files.unwritable import raises_unwritable
from msd.measure.regress.metrics import Pixels
from msd.measure.regress.suite import Drawing, Suite, Thresholds
from msd.run.runtime.image import GeneratedImage, save_image
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import name_of_kind

FORMAT = 1
MANIFEST = "goldens.json"
LIBRARIES = ("ai-edge-litert", "numpy")
RENEW = "generate new goldens with --update"


@dataclass(frozen=True)
class Origin:
    """The model that generated images, and the place where it ran.

    `model`: `Bundle.model_hash`. `weights`: a SHA-256 over the checkpoint's files and the recipe, which stays
    the same when a model is converted again. `scheduler` is its name, and `schedule` a SHA-256 of the
    model's own settings of it; both are empty in older goldens.
    """

    model: str
    weights: str
    source: str
    recipe: str
    msd: str
    backend: str
    precision: str
    versions: dict[str, str]
    scheduler: str = field(default="", metadata=schema.UNLESS_EMPTY)
    schedule: str = field(default="", metadata=schema.UNLESS_EMPTY)

    def can_be_repeated_by(self, other: Origin) -> bool:
        """Whether the other has the same weights in the same format, and runs in the same place."""
        same_place = (self.backend, self.precision) == (other.backend, other.precision)
        return self.weights == other.weights and same_place

    def has_schedule_of(self, other: Origin) -> bool:
        """Whether both have one schedule, as far as that is known."""
        schedules = [(origin.scheduler, origin.schedule) for origin in (self, other)]
        return ("", "") in schedules or schedules[0] == schedules[1]

    @staticmethod
    def of(pipeline: Pipeline) -> Origin:
        """Return the origin of a pipeline's images."""
        manifest, engine = pipeline.bundle.manifest, pipeline.engine
        return Origin(
            model=pipeline.bundle.model_hash,
            weights=_weights(pipeline.bundle),
            source=manifest.source.name,
            recipe=manifest.configuration.recipe.name,
            msd=manifest.msd,
            backend=engine.backend.spelling,
            precision=engine.precision,
            versions={"msd": msd.__version__, **{name: version(name) for name in LIBRARIES}},
            scheduler=name_of_kind(pipeline.scheduler),
            schedule=_schedule(manifest.scheduler),
        )


@dataclass(frozen=True)
class Goldens:
    """The content of goldens.json. `suite` is the SHA-256 of `drawing`, `pixels` those of the images."""

    suite: str
    drawing: Drawing
    origin: Origin
    height: int
    width: int
    pixels: dict[str, str]
    thresholds: Thresholds
    reconverted: Thresholds | None = None
    format: int = FORMAT


def load(folder: Path) -> Goldens:
    """Return the content of a folder's goldens.json; raises BadGoldens for a missing or damaged one."""
    complete(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise BadGoldens(f"{folder} has no goldens ({MANIFEST} is missing); {RENEW}")
    try:
        return schema.load(Goldens, path, FORMAT, "a list of goldens")
    except (OSError, ValueError) as problem:
        raise BadGoldens(f"{problem}; restore it, or {RENEW}") from problem


def require_same_drawing(goldens: Goldens, suite: Suite, folder: Path) -> None:
    """Raise BadGoldens, with the first difference, for goldens of other images than the suite's."""
    if goldens.drawing != suite.drawing or goldens.suite != suite.drawing.digest:
        difference = _difference(goldens.drawing, suite.drawing)
        raise BadGoldens(f"{folder} has the goldens of another suite: {difference}; {RENEW}")


def read_pictures(folder: Path, goldens: Goldens) -> dict[str, Pixels]:
    """Return the images by name; raises BadGoldens for one that is missing, damaged or of another size."""
    return {entry.name: read_picture(folder, entry.name, goldens) for entry in goldens.drawing.pictures}


def read_picture(folder: Path, name: str, goldens: Goldens) -> Pixels:
    """Return one image; raises BadGoldens for one that is missing, damaged or of another size."""
    path = folder / f"{name}.png"
    pixels = _decoded(path)
    if pixels.shape != (goldens.height, goldens.width, 3):
        size = f"{pixels.shape[1]}×{pixels.shape[0]}"
        raise BadGoldens(f"{path} is {size} and not {goldens.width}×{goldens.height}; restore it, or {RENEW}")
    if goldens.pixels.get(name) != _digest(pixels):
        raise BadGoldens(f"{path} is not the image that {MANIFEST} describes; restore it, or {RENEW}")
    return pixels


def require_replaceable(folder: Path) -> None:
    """Raise OutputExists for a folder with anything but goldens, since --update replaces it entirely."""
    recover(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OutputExists(f"{folder} is a file; goldens are a folder")
    names = {path.name for path in contents(folder)}
    if foreign := sorted(names - _images(folder) - {MANIFEST}):
        raise OutputExists(f"{folder} has {foreign[0]}, which is not a golden; --update would remove it")


def write(folder: Path, suite: Suite, pictures: Mapping[str, GeneratedImage], origin: Origin) -> None:
    """Replace the goldens in a folder by new ones, all or none. Raises OutputUnwritable."""
    height, width, _ = next(iter(pictures.values())).pixels.shape
    digests = {name: _digest(picture.pixels) for name, picture in pictures.items()}
    goldens = Goldens(
        suite=suite.drawing.digest,
        drawing=suite.drawing,
        origin=origin,
        height=height,
        width=width,
        pixels=digests,
        thresholds=suite.thresholds,
        reconverted=suite.reconverted,
    )
    with staged(folder) as staging, raises_unwritable(folder, staging):
        for name, picture in pictures.items():
            save_image(picture, staging / f"{name}.png")
        (staging / MANIFEST).write_text(schema.dump(goldens), "utf-8")
        publish(staging, folder, MANIFEST, _images(folder))


def _images(folder: Path) -> set[str]:
    """Return the names of the files in a folder that are goldens: all images where the list is damaged."""
    names = {path.name for path in contents(folder)} if folder.is_dir() else set()
    try:
        return names & {f"{name}.png" for name in load(folder).pixels}
    except BadGoldens:
        return {name for name in names if name.endswith(".png")} if MANIFEST in names else set()


def _decoded(path: Path) -> Pixels:
    """Return an RGB image; raises BadGoldens for anything that Pillow cannot read."""
    from PIL import Image

    if not path.is_file():
        raise BadGoldens(f"{path} is missing, though {MANIFEST} lists it; restore it, or {RENEW}")
    try:
        with Image.open(path, formats=["PNG"]) as image:
            return np.asarray(image.convert("RGB"))
    except Exception as problem:  # Pillow's readers raise a dozen kinds of errors
        raise BadGoldens(f"{path} is damaged ({problem}); restore it, or {RENEW}") from problem


def _digest(pixels: Pixels) -> str:
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def _schedule(config: Mapping[str, Any]) -> str:
    """Return the fingerprint of a scheduler's settings, without the words that msd adds to them."""
    return fingerprint({key: value for key, value in config.items() if not key.startswith("_")})


def _weights(bundle: Bundle) -> str:
    source, configuration = bundle.manifest.source, bundle.manifest.configuration
    files = sorted(file.sha256 for file in source.files.values())
    return fingerprint([files, source.adapters, configuration.recipe.sha256, configuration.networks])


def _difference(golden: Drawing, suite: Drawing) -> str:
    """Return the first difference between two drawings, as a clause."""
    for key in ("steps", "guidance", "scheduler"):
        if (old_value := getattr(golden, key)) != (value := getattr(suite, key)):
            return f"their {key} is {old_value} and the suite's is {value}"
    old_names, names = ([entry.name for entry in drawing.pictures] for drawing in (golden, suite))
    if old_names != names:
        return f"they are of {', '.join(old_names)} and the suite's of {', '.join(names)}"
    for old, new in zip(golden.pictures, suite.pictures, strict=True):
        for key, value in asdict(new).items():
            if (old_value := getattr(old, key)) != value:
                return f"the {key} of {old.name} is {old_value!r} there and {value!r} in the suite"
    return "the two are written in different forms"

"""A suite of images that guards a model, with thresholds for their quality: a TOML file.

    steps = 12

    [thresholds]
    psnr_least = 45.0

    [[picture]]
    name = "hearts"
    prompt = "three red hearts over a plain white background"

docs/regress.md is the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from msd.bundle import ImageDefaults
from msd.errors import BadConfig
from msd.files import bounded
from msd.files.configs import CONFIGS, find_config
from msd.files.fingerprint import fingerprint
from msd.files.toml_keys import require_known_keys
from msd.run.runtime.request import Request
from msd.run.runtime.scheduler import parse_name

FOLDER = CONFIGS / "suites"
"""The folder of msd's own suites, in a checkout or inside the installed package."""

HASH_BITS = 64
MOST: dict[str, float] = {
    "psnr_least": math.inf,
    "psnr_median": math.inf,
    "ssim_least": 1,
    "hash_distance_most": HASH_BITS,
    "attributes_least": 1,
}
"""The largest allowed value of each threshold; the smallest is 0."""

UNBREAKABLE: dict[str, float] = {
    "psnr_least": 0,
    "psnr_median": 0,
    "hash_distance_most": HASH_BITS,
    "attributes_least": 0,
}
"""The values by which a threshold holds whatever the images are; SSIM may be below 0."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The allowed names of images, which are also the names of their files."""


@dataclass(frozen=True)
class SuitePicture:
    """One image: its name, which is also that of its file, and its own part of a request."""

    name: str
    prompt: str
    negative_prompt: str = ""
    seed: int = 0


@dataclass(frozen=True)
class Drawing:
    """Everything but the model that determines the images. `scheduler` None means the checkpoint's own."""

    pictures: tuple[SuitePicture, ...]
    steps: int = 20
    guidance: float = 7.5
    scheduler: str | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of all fields: goldens with another digest are of other images."""
        return fingerprint(asdict(self))

    @property
    def requests(self) -> list[Request]:
        """The requests to a pipeline, in order."""
        return [self._request(picture) for picture in self.pictures]

    def _request(self, picture: SuitePicture) -> Request:
        return Request(
            prompt=picture.prompt,
            negative_prompt=picture.negative_prompt,
            seed=picture.seed,
            steps=self.steps,
            guidance=self.guidance,
        )


@dataclass(frozen=True)
class Thresholds:
    """The allowed difference between images and their goldens; None sets no limit.

    For each image: `psnr_least` in dB, `ssim_least` up to 1, `hash_distance_most` in bits of 64. For all:
    `psnr_median` in dB, and `attributes_least`, the mean share of each caption's attributes that the demo's
    scorer finds in the image.
    """

    psnr_least: float | None = None
    psnr_median: float | None = None
    ssim_least: float | None = None
    hash_distance_most: int | None = None
    attributes_least: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())


@dataclass(frozen=True)
class Suite:
    """A suite file. `reconverted`: thresholds for the same weights in the same format and place."""

    name: str
    drawing: Drawing
    thresholds: Thresholds
    reconverted: Thresholds | None = None
    description: str = ""


def find_suite(name_or_path: str) -> Path:
    """Return the file of the suite of that name, or the path itself; raises BadConfig listing the names."""
    return find_config(name_or_path, FOLDER, "suite")


def read_suite(path: Path, images: ImageDefaults | None = None) -> Suite:
    """Return the suite in a TOML file; raises BadConfig naming the place and the key at fault.

    `images` has the steps and the guidance of a suite that does not state them: those of a bundle.
    """
    try:
        table: dict[str, Any] = bounded.read_toml(path)
    except OSError as problem:
        raise BadConfig(
            f"{path} cannot be read ({problem.strerror}); a suite is a TOML file (msd docs regress)"
        ) from problem
    except ValueError as problem:
        raise BadConfig(f"{path} is not a suite: {problem}") from problem
    where = str(path)
    own = ("steps", "guidance", "scheduler")
    require_known_keys(where, table, ("description", "thresholds", "reconverted", "picture", *own))
    thresholds = _thresholds(table.get("thresholds", {}), f"{where}, [thresholds]")
    reconverted = table.get("reconverted")
    return Suite(
        name=path.stem,
        drawing=Drawing(
            _entries(table.get("picture", []), where), **_settings(table, where, images or ImageDefaults())
        ),
        thresholds=thresholds,
        reconverted=None if reconverted is None else _thresholds(reconverted, f"{where}, [reconverted]"),
        description=_string(table, "description", where) if "description" in table else "",
    )


def _settings(table: Mapping[str, Any], where: str, images: ImageDefaults) -> dict[str, Any]:
    """Return steps, guidance and, unless the table lacks it, scheduler."""
    values: dict[str, Any] = asdict(images)
    if "steps" in table:
        values["steps"] = _integer(table, "steps", 1, where)
    if "guidance" in table:
        values["guidance"] = float(_number(table, "guidance", math.inf, where))
    if "scheduler" in table:
        values["scheduler"] = _string(table, "scheduler", where)
        try:
            parse_name(values["scheduler"])
        except BadConfig as problem:
            raise BadConfig(f"{where}: {problem}") from problem
    return values


def _thresholds(table: object, where: str) -> Thresholds:
    if not isinstance(table, dict):
        raise BadConfig(f"{where} is {table!r}; a table was expected")
    require_known_keys(where, table, [f.name for f in fields(Thresholds)])
    values: dict[str, Any] = {key: _number(table, key, MOST[key], where) for key in table}
    if "hash_distance_most" in values:
        values["hash_distance_most"] = _integer(table, "hash_distance_most", 0, where)
    if not values:
        raise BadConfig(f"{where} has no threshold, so no image could fail; add psnr_least, for example")
    for key, value in values.items():
        if value == UNBREAKABLE.get(key):
            raise BadConfig(
                f"{where}: {key} is {value:g}, by which no image could fail; leave it out, or give"
                f" {'less' if key == 'hash_distance_most' else 'more'}"
            )
    return Thresholds(**values)


def _entries(tables: object, where: str) -> tuple[SuitePicture, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadConfig(f"{where}: picture is not a list of tables; write [[picture]] above each")
    if not tables:
        raise BadConfig(f"{where} has no images; add [[picture]] entries, each with a name and a prompt")
    entries = tuple(_entry(table, f"{where}, picture entry {n}") for n, table in enumerate(tables, 1))
    seen: dict[str, str] = {}
    for entry in entries:
        if earlier := seen.get(entry.name.lower()):
            both = f"{earlier} and {entry.name}"
            raise BadConfig(f"{where}: two images are called {both}; each needs a name of its own")
        seen[entry.name.lower()] = entry.name
    return entries


def _entry(table: dict[str, Any], where: str) -> SuitePicture:
    require_known_keys(where, table, [f.name for f in fields(SuitePicture)])
    if missing := [key for key in ("name", "prompt") if key not in table]:
        raise BadConfig(f"{where} lacks {missing[0]}")
    name = _string(table, "name", where)
    if not NAME.fullmatch(name):
        raise BadConfig(f"{where}: name is {name!r}; a file name of letters, digits, '.', '_', '-' is needed")
    return SuitePicture(
        name,
        _string(table, "prompt", where),
        _string(table, "negative_prompt", where) if "negative_prompt" in table else "",
        _integer(table, "seed", 0, where) if "seed" in table else 0,
    )


def _string(table: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(table[key], str):
        raise BadConfig(f"{where}: {key} is {table[key]!r}; a string was expected")
    return str(table[key])


def _integer(table: Mapping[str, Any], key: str, least: int, where: str) -> int:
    value = table[key]
    if type(value) is not int or value < least:
        raise BadConfig(f"{where}: {key} is {value!r}; a whole number, at least {least}, was expected")
    return value


def _number(table: Mapping[str, Any], key: str, most: float, where: str) -> float:
    value = table[key]
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= most:
        bounds = "0 or more" if most == math.inf else f"from 0 to {most:g}"
        raise BadConfig(f"{where}: {key} is {value!r}; a number {bounds} was expected")
    return float(value)

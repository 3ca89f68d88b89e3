"""The values that a conversion's options may have, for callers that no command line has checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.bounds import MOST_GUIDANCE, MOST_STEPS
from msd.bundle import ImageSize
from msd.errors import BadConfig

MOST_PIXELS = 99_999


@dataclass(frozen=True)
class OptionValue:
    """The values of one kind: a test, and how a sentence names them."""

    holds: Callable[[Any], bool]
    words: str


def _whole(least: int, most: int) -> OptionValue:
    return OptionValue(
        lambda v: type(v) is int and least <= v <= most, f"a whole number from {least} to {most}"
    )


def _number(least: float, most: float) -> OptionValue:
    words = f"a number from {least:g} to {most:g}"
    return OptionValue(lambda v: type(v) in (int, float) and least <= v <= most, words)


def _one_of(*values: str) -> OptionValue:
    return OptionValue(lambda v: v in values, " or ".join(map(repr, values)))


def _all_are(kind: type | tuple[type, ...], words: str) -> OptionValue:
    def holds(value: Any) -> bool:
        return isinstance(value, list | tuple) and all(isinstance(each, kind) for each in value)

    return OptionValue(holds, f"a list of {words}")


def _pairs(second: tuple[type, ...], words: str) -> OptionValue:
    def is_pair(each: Any) -> bool:
        return isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str | Path)

    def holds(value: Any) -> bool:
        return isinstance(value, list | tuple) and all(
            is_pair(each) and isinstance(each[1], second) and not isinstance(each[1], bool) for each in value
        )

    return OptionValue(holds, f"a list of pairs, a file and {words}")


def _or_none(value: OptionValue) -> OptionValue:
    return OptionValue(lambda v: v is None or value.holds(v), f"{value.words}, or None")


TEXT = OptionValue(lambda v: isinstance(v, str), "a text")
PATH = OptionValue(lambda v: isinstance(v, str | Path), "a path")
FLAG = OptionValue(lambda v: isinstance(v, bool), "True or False")
NAMES = _all_are(str, "names")

VALUES: Mapping[str, OptionValue] = {
    "recipe": PATH,
    "components": NAMES,
    "also": NAMES,
    "batch": _whole(1, 2),
    "height": _or_none(_whole(8, MOST_PIXELS)),
    "width": _or_none(_whole(8, MOST_PIXELS)),
    "sizes": _all_are(ImageSize, "ImageSize"),
    "device": _or_none(PATH),
    "gelu_clip": _number(1, 1000),
    "spelling": PATH,
    "attention": _one_of("products", "composite"),
    "without": NAMES,
    "prediction_type": _or_none(_one_of("epsilon", "v_prediction")),
    "networks": _one_of("auto", "keras-cv"),
    "prune": _or_none(TEXT),
    "calibration": _or_none(PATH),
    "refit": FLAG,
    "jobs": _or_none(_whole(1, 256)),
    "force": FLAG,
    "lora": _pairs((int, float), "its scale"),
    "embeddings": _pairs((str, type(None)), "its token or None"),
    "vae": _all_are((str, Path), "paths"),
    "preview_vae": _or_none(PATH),
    "clip_skip": _whole(0, 256),
    "prompt_chunks": _whole(1, 16),
    "scheduler": _or_none(TEXT),
    "steps": _or_none(_whole(1, MOST_STEPS)),
    "guidance": _or_none(_number(0, MOST_GUIDANCE)),
}
"""What each option of a conversion may be."""


def require_valid_options(options: Mapping[str, Any]) -> None:
    """Raise BadConfig, naming the option, for a value that it cannot have, and for a size given twice."""
    for name, value in options.items():
        if not VALUES[name].holds(value):
            raise BadConfig(f"{name} is {value!r}; it should be {VALUES[name].words}")
    if options.get("sizes") and (options.get("height") or options.get("width")):
        raise BadConfig("sizes already name the height and the width; leave out height and width")

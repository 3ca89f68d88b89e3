"""The text encoders of a single file, and what follows from them for the rest of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msd.graph.ir.weights import Weights
from msd.models.families import Family


@dataclass(frozen=True)
class Texts:
    """What a file's text encoders are: of a `family`, with `settings` by folder and `weights` by component.

    `tokenizers` have a function that returns each of their files. With `head_widths`, all heads of the U-Net
    are equally wide, and otherwise there is the same number of them on every level; it takes a text of
    `pooled` numbers, if any. `pixels` are the height and width of images, and `velocity_pixels` those of a
    U-Net that predicts velocity. An `ambiguous` U-Net of latents alone may predict either.
    """

    family: Family
    settings: dict[str, dict[str, Any]]
    weights: dict[str, Mapping[str, Weights]]
    tokenizers: dict[str, dict[str, Callable[[], bytes]]]
    scheduler: Mapping[str, Any]
    head_widths: bool
    pooled: int | None = None
    pixels: int = 512
    velocity_pixels: int = 512
    ambiguous: bool = False

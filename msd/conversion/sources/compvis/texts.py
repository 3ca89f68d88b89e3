"""The text encoders of a single file, of whatever family."""

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
    are equally wide, and otherwise there is the same number of them on every level.
    """

    family: Family
    settings: dict[str, dict[str, Any]]
    weights: dict[str, Mapping[str, Weights]]
    tokenizers: dict[str, dict[str, Callable[[], bytes]]]
    head_widths: bool

"""The target of the rewrites."""

from __future__ import annotations

from dataclasses import dataclass, field

from msd.prediction.device import Device
from msd.rewrite.spelling import Spelling


@dataclass(frozen=True)
class Target:
    """The device that a graph is for, and the choices of how to write it.

    `gelu_clip` is the M of clipped GELU (arXiv 2307.01193, section 3.1).
    """

    device: Device = field(default_factory=Device)
    gelu_clip: float = 10.0
    spelling: Spelling = field(default_factory=Spelling)

"""The target of the rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msd.graph.prediction.device import ConvSize, Device
from msd.graph.prediction.fit import fits, input_split, output_split
from msd.graph.rewrite.spelling import Spelling


@dataclass(frozen=True)
class Target:
    """The device that a graph is for, and the choices of how to write it.

    `gelu_clip` is the M of clipped GELU (arXiv 2307.01193, section 3.1). `largest` are the magnitudes that
    activations reached, by the names of tensors; empty where none were measured.
    """

    device: Device = field(default_factory=Device)
    gelu_clip: float = 10.0
    spelling: Spelling = field(default_factory=Spelling)
    largest: Mapping[str, float] = field(default_factory=dict)

    def fits(self, conv: ConvSize) -> bool:
        """Whether a convolution's weights are within the device's known limits."""
        return fits(self.device, conv)

    def splits(self, conv: ConvSize) -> tuple[int | None, int | None]:
        """Return the fewest equal slices of input and of output channels that fit, None where none do."""
        return input_split(self.device, conv), output_split(self.device, conv)

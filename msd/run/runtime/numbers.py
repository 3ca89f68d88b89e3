"""The numbers that a network takes of a step and of an image, or the sinusoids of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msd.models.families.calls import InputSource
from msd.run.runtime.arrays import Float
from msd.run.runtime.timestep import embed_timestep

COUNTS = {"timestep": 1, "guidance": 1, "sizes": 6}
"""How many numbers there are of a source."""


@dataclass(frozen=True)
class Numbers:
    """The quantities of one step of an image of `height` by `width` pixels.

    `guidance` is the number that a guidance scale is embedded as (msd.run.runtime.guidance.Guidance.number).
    """

    timestep: float
    guidance: float
    height: int
    width: int

    def values(self, source: InputSource) -> Float:
        """Return the numbers of a source, float32 (count,).

        "sizes" are the original size, the corner of the crop and the target size, each height first, as in
        Podell et al., "SDXL" (2023, arXiv 2307.01952), section 2.2.
        """
        size = (self.height, self.width)
        known = {
            "timestep": (self.timestep,),
            "guidance": (self.guidance,),
            "sizes": (*size, 0, 0, *size),
        }
        return np.array(known[source.of], np.float32)

    def input(self, source: InputSource, width: int) -> Float:
        """Return a source of `width` elements: the numbers, or the sinusoids of each, one after the other."""
        values = self.values(source)
        if source.kind == "numbers":
            return values
        each = width // len(values)
        return np.concatenate(
            [embed_timestep(float(v), each, source.cosine_first, source.frequency_shift) for v in values]
        )

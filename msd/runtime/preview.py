"""What a picture looks like before it is done: the clean latents that a step's output implies, decoded.

The decoder itself draws previews. A linear map from latents to colours would need no decoder, but even the
best one for six pictures of the demo, fitted to those very pictures, stayed at 13 to 19 dB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from msd.runtime.picture import pixels

Float = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Preview:
    """Step `number` of `total` of the picture of a `seed`, which took `seconds`.

    `latents`: what the network takes to be the clean latents now, float32 (1, height/8, width/8, 4).
    """

    seed: int
    number: int
    total: int
    seconds: float
    latents: Float
    decode: Callable[[Float], Float]

    def pixels(self) -> npt.NDArray[np.uint8]:
        """Return uint8 (height, width, 3). Runs the decoder: to be asked before the next step, if at all."""
        return pixels(self.decode(self.latents))


OnPreview = Callable[[Preview], None]
"""Told, after each step, how the picture stands."""

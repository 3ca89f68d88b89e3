"""Previews of an unfinished image: the clean latents that a step's output implies, decoded.

A decoder computes previews: a tiny one where the bundle has it, or else the one that decodes images. A linear
map from latents to colours would need no decoder, but even the best one for six images of the demo, fitted to
those very images, reached only 13 to 19 dB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msd.bundle import Bundle
from msd.run.runtime.arrays import Float, Pixels


@dataclass(frozen=True, eq=False)
class Preview:
    """A preview of the image of `seed` after run `number` of the denoiser's `total`, which took `seconds`.

    `latents`: the network's current estimate of the clean latents, float32 (1, height/8, width/8, 4).
    """

    seed: int
    number: int
    total: int
    seconds: float
    latents: Float
    decode: Callable[[Float], Pixels]

    def pixels(self) -> Pixels:
        """Return uint8 (height, width, 3). It runs the decoder, so call it before the next step."""
        return self.decode(self.latents)


def preview_decoder(bundle: Bundle) -> str:
    """Return the name of the network that decodes previews: the one for that alone, if the bundle has it."""
    wiring = bundle.wiring
    return (wiring.preview or wiring.decoder).component


OnPreview = Callable[[Preview], None]
"""Called after each step with a preview."""

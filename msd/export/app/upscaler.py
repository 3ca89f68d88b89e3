"""What an app knows of an upscaler: the network, and the tiles that it takes."""

from __future__ import annotations

from dataclasses import dataclass

from msd.bundle import Bundle
from msd.run.runtime.tiles import Tiling
from msd.run.runtime.upscale import scale_of, tiling_of


@dataclass(frozen=True)
class UpscalerFacts:
    """How the network `role` enlarges an image `scale` times along each side, a tile at a time.

    `input` is a tile's pixels in [-1, 1], NHWC with N = 1, and `output` the enlarged ones. `tiles` are in
    pixels of the image as it was (msd/run/runtime/upscale.py).
    """

    role: str
    input: str
    output: str
    scale: int
    tiles: Tiling


def upscaler_facts(bundle: Bundle) -> UpscalerFacts | None:
    """Return how a bundle's upscaler enlarges, None without one; raises BadBundle for one of another form."""
    call = bundle.wiring.upscaler
    if call is None:
        return None
    (given,), (made,) = call.inputs, call.outputs
    return UpscalerFacts(
        role=call.component,
        input=given.name,
        output=made.tensor,
        scale=scale_of(bundle),
        tiles=tiling_of(bundle),
    )

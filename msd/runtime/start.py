"""The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.

Image to image after Meng et al., "SDEdit" (2021, arXiv 2108.01073). Inpainting by a denoiser that sees the
mask and the masked image (9 channels of input), or by blending latents in every step, as diffusers'
StableDiffusionInpaintPipeline does both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from msd.runtime.request import Request
from msd.runtime.step import StepTable

Float = npt.NDArray[np.float32]

Encode = Callable[[Float, int], Float]
"""Returns the latents of pixels in [-1, 1], with the posterior's noise from the stream of that number."""

IMAGE_STREAM, MASKED_STREAM = 1, 2


@dataclass(frozen=True, eq=False)
class Start:
    """What an image starts from, all of it float32 (1, rows, columns, …); several images have a row each.

    `noise`: normal noise. `clean`: the latents of the initial image, or None. `mask`: 1 where the image is
    repainted, one channel, or None. `condition`: what an inpainting denoiser takes beside the latents: the
    mask and the latents of the masked image, or None.
    """

    noise: Float
    clean: Float | None = None
    mask: Float | None = None
    condition: Float | None = None

    def latent(self, table: StepTable, strength: float | None) -> Float:
        """Return the latents before the first step; a mask at full strength starts from noise alone."""
        if self.clean is None or (self.mask is not None and strength == 1):
            return self.noise * np.float32(table.start)
        return table.noised(0, self.clean, self.noise)

    def keep(self, latent: Float, table: StepTable, index: int) -> Float:
        """Return the latents before step `index` with those that the mask keeps put back, by blending."""
        if self.clean is None or self.mask is None or self.condition is not None:
            return latent
        kept: Float = (1 - self.mask) * table.noised(index, self.clean, self.noise) + self.mask * latent
        return kept


def start_from(request: Request, noise: Float, encode: Encode, inpaints: bool) -> Start:
    """Return the start of a request's image; `inpaints` says that the denoiser takes the masked image.

    The mask of the latents is the mask's pixel at the top left of each cell.
    """
    image = request.image
    if image is None:
        return Start(noise)
    if image.mask is None:
        return Start(noise, encode(image.pixels, IMAGE_STREAM))
    cell = image.mask.shape[1] // noise.shape[1], image.mask.shape[2] // noise.shape[2]
    mask = np.ascontiguousarray(image.mask[:, :: cell[0], :: cell[1]])
    if not inpaints:
        return Start(noise, encode(image.pixels, IMAGE_STREAM), mask)
    clean = encode(image.pixels, IMAGE_STREAM) if request.effective_strength != 1 else None
    masked = encode(image.pixels * (1 - image.mask), MASKED_STREAM)
    return Start(noise, clean, mask, np.concatenate([mask, masked], -1))


def together(starts: Sequence[Start]) -> Start:
    """Return the starts of several images as one, a row each; all have the same parts."""
    return Start(
        noise=np.concatenate([start.noise for start in starts]),
        clean=_rows([start.clean for start in starts]),
        mask=_rows([start.mask for start in starts]),
        condition=_rows([start.condition for start in starts]),
    )


def _rows(parts: Sequence[Float | None]) -> Float | None:
    rows = [part for part in parts if part is not None]
    return np.concatenate(rows) if rows else None

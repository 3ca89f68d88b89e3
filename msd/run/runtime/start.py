"""The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.

Image to image after Meng et al., "SDEdit" (2021, arXiv 2108.01073). Inpainting by a denoiser that takes the
mask among its inputs, or by blending latents in every step, as diffusers' StableDiffusionInpaintPipeline does
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from msd.run.runtime.arrays import Float
from msd.run.runtime.denoiser import at_cells
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.step import StepTable


@dataclass(frozen=True, eq=False)
class Start:
    """What an image starts from, all of it float32 (1, rows, columns, …); several images have a row each.

    `noise`: normal noise. `clean`: the latents of the initial image, or None. `mask`: 1 where the image is
    repainted, one channel, or None; latents are blended by it where it `blends`, and not where the denoiser
    takes it.
    """

    noise: Float
    clean: Float | None = None
    mask: Float | None = None
    blends: bool = True

    def latent(self, table: StepTable, strength: float | None) -> Float:
        """Return the latents before the first step; a mask at full strength starts from noise alone."""
        if self.clean is None or (self.mask is not None and strength == 1):
            return self.noise * np.float32(table.start)
        return table.noised(0, self.clean, self.noise)

    def keep(self, latent: Float, table: StepTable, index: int) -> Float:
        """Return the latents before step `index` with those that the mask keeps put back, by blending."""
        if self.clean is None or self.mask is None or not self.blends:
            return latent
        kept: Float = (1 - self.mask) * table.noised(index, self.clean, self.noise) + self.mask * latent
        return kept


def start_from(image: InitialImage | None, noise: Float, clean: Float | None, blends: bool) -> Start:
    """Return the start of an image from `noise` and the `clean` latents of the initial one, if there is one.

    The mask of the latents is the mask's pixel at the top left of each cell.
    """
    mask = None if image is None or image.mask is None else at_cells(image.mask, noise.shape)
    return Start(noise, clean, mask, blends)


def pixels_of(image: InitialImage | None) -> Mapping[str, Float]:
    """Return the pixels that networks can take, by the names that sources have for them."""
    if image is None:
        return {}
    if image.mask is None:
        return {"image": image.pixels}
    return {"image": image.pixels, "mask": image.mask, "masked image": image.pixels * (1 - image.mask)}


def together(starts: Sequence[Start]) -> Start:
    """Return the starts of several images as one, a row each; all have the same parts."""
    return Start(
        noise=np.concatenate([start.noise for start in starts]),
        clean=_rows([start.clean for start in starts]),
        mask=_rows([start.mask for start in starts]),
        blends=starts[0].blends,
    )


def _rows(parts: Sequence[Float | None]) -> Float | None:
    rows = [part for part in parts if part is not None]
    return np.concatenate(rows) if rows else None

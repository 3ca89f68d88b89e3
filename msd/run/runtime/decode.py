"""Latents to pixels, by the decoder of a bundle or its preview decoder, and in tiles where it takes fewer."""

from __future__ import annotations

import numpy as np

from msd.bundle import Bundle
from msd.models.families import title_of
from msd.run.runtime.arrays import Float, Pixels
from msd.run.runtime.components import LoadedNetwork
from msd.run.runtime.finite import require_finite, require_picture
from msd.run.runtime.image import pixels
from msd.run.runtime.needs import decoded_cells, latent_shape, tensor_of
from msd.run.runtime.paste import paste
from msd.run.runtime.request import Request
from msd.run.runtime.tiles import Tiling, joined_rows, spans


def decode(bundle: Bundle, decoder: LoadedNetwork, request: Request, latent: Float) -> Pixels:
    """Return the image of one request, uint8 (height, width, 3); raises NotFinite."""
    wiring = bundle.wiring
    is_preview = wiring.preview is not None and decoder.name == wiring.preview.component
    call = wiring.preview if is_preview and wiring.preview else wiring.decoder
    image = decode_latent(decoder, call.inputs[0].name, tensor_of(bundle, call, "image").name, latent)
    require = require_finite if is_preview else require_picture
    shown = pixels(require(image, f"the image of the {title_of(decoder.name)}"))
    return paste(shown, request.image) if request.image and request.paste else shown


def decode_latent(decoder: LoadedNetwork, given: str, made: str, latent: Float) -> Float:
    """Return the image of a latent (1, rows, columns, channels), float32 (height, width, 3).

    `given` and `made` are the decoder's input and output. Where it takes fewer rows or columns, it decodes
    tiles that fade into each other.
    """
    _, rows, columns, _ = decoder.shape(given)
    shape = decoder.shape(made)[1:]
    scale = shape[0] // rows

    def run(down: slice, across: slice) -> Float:
        image: Float = decoder.rows(made, {given: latent[:, down, across]}).reshape(shape)
        return image

    _, height, width, _ = latent.shape
    return np.concatenate([*joined_rows(height, width, Tiling.of(rows, columns), scale, run)])


def decoder_runs(bundle: Bundle) -> int:
    """Return how often the decoder runs for an image: once, or once for each tile."""
    return tile_runs(bundle, *decoded_cells(bundle))


def tile_runs(bundle: Bundle, rows: int, columns: int) -> int:
    """Return how often a network that has so many rows and columns of latents runs for an image."""
    (_, height, width, _), overlap = latent_shape(bundle), Tiling.of(rows, columns).overlap
    return len(spans(height, rows, overlap)) * len(spans(width, columns, overlap))

"""Enlarges an image with a bundle's upscaler, tile by tile: memory is bounded whatever the image's size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msd.bundle import Bundle, ConvertedFile
from msd.errors import BadBundle, BadConfig
from msd.models.families import title_of
from msd.run.runtime.arrays import Float, Pixels
from msd.run.runtime.components import LoadedNetwork
from msd.run.runtime.execution import NetworksInMemory
from msd.run.runtime.finite import require_finite
from msd.run.runtime.image import image_of, pixels
from msd.run.runtime.request import Request
from msd.run.runtime.tiles import Tiling, covered, joined_rows

OVERLAP = 32
"""Pixels that two tiles share. A large network reads further, but hardly depends on it."""

PIXELS_AT_ONCE = {2: 2}
"""Tiles of an upscaler of 2 times begin at even pixels, for its large network reads squares of 2 by 2."""


def scale_of(bundle: Bundle) -> int:
    """Return how many times the upscaler of a bundle enlarges.

    Raises BadConfig for a family without upscalers, and BadBundle for a bundle without one or with one of
    another form.
    """
    file = _file(bundle)
    ports = [spec.shape for spec in (*file.inputs, *file.outputs)]
    (_, rows, columns, _), (_, *larger, _) = ports if [*map(len, ports)] == [4, 4] else [(0,) * 4] * 2
    scale = larger[0] // rows if rows else 0
    if bundle.wiring.upscaler is None or scale < 1 or larger != [scale * rows, scale * columns]:
        raise BadBundle(f"{file.file} should enlarge an image, and has tensors of the shapes {ports}")
    return scale


def tiling_of(bundle: Bundle) -> Tiling:
    """Return the tiles, in pixels of the image, that a bundle's upscaler takes; raises as `scale_of` does."""
    scale = scale_of(bundle)
    _, rows, columns, _ = _file(bundle).inputs[0].shape
    return Tiling(rows, columns, min(OVERLAP, rows // 2, columns // 2), PIXELS_AT_ONCE.get(scale, 1))


def _file(bundle: Bundle) -> ConvertedFile:
    component = bundle.family.upscaler
    if component is None:
        raise BadConfig(f"{bundle.family.title} has no upscaler")
    return bundle.component(component.name)


def require_enlarges(bundle: Bundle, request: Request) -> None:
    """Raise BadConfig where a request asks for another scale than the bundle's upscaler has.

    Raises what `scale_of` raises where it asks for one.
    """
    if request.upscale is not None and (own := scale_of(bundle)) != request.upscale:
        raise BadConfig(f"the upscaler of {bundle.folder} enlarges {own} times, not {request.upscale}")


def enlarge(
    bundle: Bundle,
    networks: NetworksInMemory,
    requests: Sequence[Request],
    images: Sequence[Pixels],
    are_last: bool,
) -> list[Pixels]:
    """Return the images, those enlarged that requests say; the upscaler stays unless these `are_last`."""
    call = bundle.wiring.upscaler
    if call is None or all(request.upscale is None for request in requests):
        return [*images]
    network = networks.take(call.component)
    found = [
        upscale(bundle, network, image) if request.upscale is not None else image
        for request, image in zip(requests, images, strict=True)
    ]
    if are_last:
        networks.release(network.name)
    return found


def upscale(bundle: Bundle, network: LoadedNetwork, image: Pixels) -> Pixels:
    """Return an image (height, width, 3) enlarged by the bundle's upscaler, which is `network`.

    An image smaller than a tile is continued by its last pixels. Raises NotFinite.
    """
    file, scale, tiling = bundle.component(network.name), scale_of(bundle), tiling_of(bundle)
    (given,), (made,) = file.inputs, file.outputs
    height, width = image.shape[:2]
    beyond = (
        covered(height, tiling.rows, tiling.multiple),
        covered(width, tiling.columns, tiling.multiple),
    )
    larger = np.pad(image, ((0, beyond[0] - height), (0, beyond[1] - width), (0, 0)), "edge")

    def run(down: slice, across: slice) -> Float:
        tile = image_of(np.ascontiguousarray(larger[down, across]))
        result: Float = network.rows(made.name, {given.name: tile}).reshape(made.shape[1:])
        return require_finite(result, f"the image of the {title_of(network.name)}")

    result = np.empty((scale * beyond[0], scale * beyond[1], 3), np.uint8)
    done = 0
    for part in joined_rows(*beyond, tiling, scale, run):
        result[done : done + len(part)] = pixels(part)
        done += len(part)
    return result[: scale * height, : scale * width]

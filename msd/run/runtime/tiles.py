"""What a network computes of overlapping tiles, joined without a seam, a few rows of tiles in memory.

Tiles lie at equal distances. In the middle of what two of them share, one fades into the other, so that
neither the edge of a tile, where a network sees nothing beyond, nor a step between two is visible. diffusers
does so for its autoencoder (AutoencoderKL.tiled_decode), and fades over all that two tiles share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from msd.run.runtime.arrays import Float

Run = Callable[[slice, slice], Float]
"""Returns what is computed of the tile at such rows and columns."""


@dataclass(frozen=True)
class Tiling:
    """Tiles of `rows` by `columns` cells, of which neighbours share at least `overlap`.

    They begin at multiples of `multiple`, which divides the tile and all that is tiled.
    """

    rows: int
    columns: int
    overlap: int
    multiple: int = 1

    @staticmethod
    def of(rows: int, columns: int) -> Tiling:
        """Return tiles of the autoencoder: neighbours share a quarter, as in diffusers."""
        return Tiling(rows, columns, min(rows, columns) // 4)


@dataclass(frozen=True, eq=False)
class Stretch:
    """A tile along one axis: where it begins, and the share of each of its cells, from 0 to 1.

    Of every cell, the shares of all spans are 1 together.
    """

    start: int
    shares: Float


def covered(size: int, tile: int, multiple: int) -> int:
    """Return the cells along a side of `size` that tiles cover: whole multiples, and no less than a tile."""
    return max(-(-size // multiple) * multiple, tile)


def spans(size: int, tile: int, overlap: int, multiple: int = 1) -> list[Stretch]:
    """Return the spans of `tile` cells that cover `size`, which is not smaller, in order.

    One fades into the next over half of `overlap`.
    """
    count = max(1, -(-(size - overlap) // (tile - overlap)))
    gaps = max(1, count - 1)
    starts = [(size - tile) * i // gaps // multiple * multiple for i in range(count)]
    middles = [(start + last + tile) / 2 for last, start in pairwise(starts)]
    found = []
    for start, before, after in zip(starts, [None, *middles], [*middles, None], strict=True):
        cells = np.arange(start, start + tile, dtype=np.float32) + 0.5
        shares = _rise(cells, before, overlap / 2, 1) - _rise(cells, after, overlap / 2, 0)
        found.append(Stretch(start, shares))
    return found


def _rise(cells: Float, middle: float | None, length: float, without: float) -> Float:
    """Return 0, a ramp of `length` cells around `middle`, and 1 after it; `without` where there is none."""
    if middle is None:
        return np.full(cells.shape, without, np.float32)
    ramp: Float = np.clip((cells - middle) / max(1, length) + 0.5, 0, 1).astype(np.float32)
    return ramp


def joined_rows(rows: int, columns: int, tiling: Tiling, scale: int, run: Run) -> Iterator[Float]:
    """Yield what `run` computes of `rows` by `columns` cells, (n, scale·columns, channels), row after row.

    `run` returns `scale` times the rows and columns of a tile.
    """
    down = spans(scale * rows, scale * tiling.rows, scale * tiling.overlap, scale * tiling.multiple)
    across = spans(scale * columns, scale * tiling.columns, scale * tiling.overlap, scale * tiling.multiple)
    ahead: Float | None = None
    for i, span in enumerate(down):
        strip = span.shares[:, None, None] * _strip(span.start // scale, across, tiling, scale, run)
        if ahead is not None:
            strip[: len(ahead)] += ahead
        done = down[i + 1].start - span.start if i + 1 < len(down) else len(strip)
        yield strip[:done]
        ahead = strip[done:].copy()


def _strip(top: int, across: list[Stretch], tiling: Tiling, scale: int, run: Run) -> Float:
    """Return a row of tiles, joined."""
    strip: Float | None = None
    for span in across:
        left = span.start // scale
        tile = run(slice(top, top + tiling.rows), slice(left, left + tiling.columns))
        if strip is None:
            width = across[-1].start + len(across[-1].shares)
            strip = np.zeros((len(tile), width, tile.shape[-1]), np.float32)
        strip[:, span.start : span.start + len(span.shares)] += span.shares[:, None] * tile
    assert strip is not None
    return strip

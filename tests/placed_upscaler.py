"""An upscaler of sums, and sizes that test its tiles: a whole picture would differ from tiles with seams."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.app_bundles import enlarge

SIZES = [
    (4, (64, 48), (150, 97)),
    (4, (64, 48), (20, 90)),
    (4, (40, 40), (1, 1)),
    (2, (64, 48), (131, 75)),
    (2, (24, 56), (24, 56)),
]
"""Scales, tiles and images, rows first."""

SPANS = [(512, 192, 32, 1), (194, 192, 32, 2), (1000, 64, 32, 2), (97, 48, 24, 1), (768, 128, 96, 4)]
"""A size, a tile, an overlap and a multiple."""

COVERED = [(64, 64, 1), (65, 64, 2), (66, 64, 2), (1, 64, 1), (67, 32, 4), (64, 9, 3), (65, 9, 3), (66, 9, 3)]
"""A size, a tile and a multiple."""

UNFIT_TILES: dict[str, Any] = {
    "scale": 2,
    "input": "picture",
    "output": "larger",
    "tiles.rows": 16,
    "tiles.columns": 24,
    "tiles.overlap": 16,
    "tiles.multiple": 5,
}
"""What does not fit the upscaler of tests/app_bundles.py, by its place in the manifest."""


class Network:
    """An upscaler whose result depends on the place in a tile, so that seams differ from a whole image."""

    name = "upscaler"

    def __init__(self, scale: int, rows: int, columns: int) -> None:
        self.scale, self.rows_of, self.columns = scale, rows, columns

    def rows(self, name: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
        return enlarge(feeds["image"], self.scale).astype(np.float32)

    @property
    def bundle(self) -> Any:
        """What `upscale` asks of a bundle."""
        shape, s = (1, self.rows_of, self.columns, 3), self.scale
        file = SimpleNamespace(
            file="upscaler.tflite",
            inputs=[SimpleNamespace(name="image", shape=shape)],
            outputs=[SimpleNamespace(name="enlarged", shape=(1, s * shape[1], s * shape[2], 3))],
        )
        family = SimpleNamespace(upscaler=SimpleNamespace(name="upscaler"))
        wiring = SimpleNamespace(upscaler=SimpleNamespace(component="upscaler"))
        return SimpleNamespace(component=lambda name: file, family=family, wiring=wiring)

    @property
    def facts(self) -> dict[str, Any]:
        overlap = min(32, self.rows_of // 2, self.columns // 2)
        tiles = {"rows": self.rows_of, "columns": self.columns, "overlap": overlap}
        tiles["multiple"] = 2 if self.scale == 2 else 1
        ports = {"role": "upscaler", "input": "image", "output": "enlarged"}
        return {**ports, "scale": self.scale, "tiles": tiles}


def photo(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, 256, (rows, columns, 3), np.uint8)

"""A suite of two pictures for the stand-in networks, and what there is to compare of it without drawing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msd.bundle import open_bundle
from msd.measure.regress.compare import Result, compare
from msd.measure.regress.goldens import Goldens, Origin
from msd.measure.regress.suite import Drawing, Suite, SuitePicture, Thresholds
from msd.run.runtime.pipeline import Pipeline

Array = np.ndarray[Any, Any]

HEIGHT, WIDTH = 32, 48
ENTRIES = SuitePicture("fox", "a fox", "a dog", 3), SuitePicture("owl", "an owl")
SUITE = Suite("mine", Drawing(ENTRIES, 2, 4.0, "euler"), Thresholds(40.0, 45.0, 0.99, 5))


def pipeline(bundle: Path) -> Pipeline:
    return Pipeline(open_bundle(bundle), scheduler=SUITE.drawing.scheduler)


def noisy(pixels: Array, amount: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    shifted = pixels.astype(int) + rng.integers(-amount, amount + 1, pixels.shape)
    return np.clip(shifted, 0, 255).astype(np.uint8)


def waves(seed: int = 1) -> Array:
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    colours = [127 + 90 * np.sin(x / 5 + k + seed) * np.cos(y / 7) for k in range(3)]
    return np.stack(colours, -1).astype(np.uint8)


def goldens(suite: Suite) -> tuple[Goldens, dict[str, Array]]:
    """Return goldens of made-up pictures, from a model "aaa…"."""
    came = Origin("a" * 64, "same", "s", "r", "0", "cpu", "fp32", {})
    kept = Goldens(
        suite.drawing.digest, suite.drawing, came, HEIGHT, WIDTH, {}, suite.thresholds, suite.reconverted
    )
    return kept, {entry.name: waves(n) for n, entry in enumerate(suite.drawing.pictures)}


def judged(new: dict[str, Array], suite: Suite = SUITE, **origin: Any) -> Result:
    """Return the result for made-up goldens where only the pictures `new` are others."""
    kept, golden = goldens(suite)
    return compare(suite, kept, golden, golden | new, replace(kept.origin, **origin), False, 1.0)

"""The smallest checkpoint, converted with each shipped recipe, and with what else a conversion can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import graph_rewrites
from msd.bundle import Bundle, ImageSize, open_bundle
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import find_recipe, shipped
from msd.conversion.convert import Settings, convert
from msd.graph import tflite
from tests import checkpoints, tiny_autoencoders
from tests.shared import shared_folder

Change = Callable[[Settings, Path], Settings]
"""Changes the settings of a conversion; the path is that of the sources."""

WORDS = "words.txt"
SIZES = ImageSize(32, 32), ImageSize(48, 32)

WORDS = "words.txt"
SIZES = ImageSize(32, 32), ImageSize(48, 32)

VARIANTS: dict[str, tuple[str, Change]] = {
    "gpu-w4, calibrated": ("gpu-w4", lambda s, p: replace(s, calibration=Calibration(p / WORDS, steps=2))),
    "gpu-w4, several sizes": ("gpu-w4", lambda s, p: replace(s, sizes=SIZES)),
    "gpu-w4, image encoder": ("gpu-w4", lambda s, p: replace(s, also=("vae_encoder",))),
    "gpu-w4, tiny decoder": ("gpu-w4", lambda s, p: replace(s, preview_vae=p / "taesd")),
}
NAMES = [*shipped(), *VARIANTS]
"""Of the bundles: the recipes, and the variants of one."""

INT4 = [name for name in NAMES if "w4" in name or "mixed" in name]


def recipe_bundle(factory: pytest.TempPathFactory, name: str) -> Bundle:
    """Return the bundle of that name, made by the first test that asks for it; read only."""
    source = shared_folder(factory, "recipe-source", _write_source)
    recipe, change = VARIANTS.get(name, (name, lambda settings, path: settings))
    settings = change(Settings(graph_rewrites.load(), find_recipe(recipe)), source)
    make = partial(convert, source / "checkpoint", settings=settings)
    return open_bundle(shared_folder(factory, f"recipe-{NAMES.index(name)}", make))


def constants(path: Path) -> Counter[str]:
    """Return how many constants of each type a file has."""
    graphs = tflite.read(path).graphs
    return Counter(t.dtype for graph in graphs for t in graph.tensors() if t.data is not None)


def _write_source(folder: Path) -> None:
    folder.mkdir()
    checkpoints.write(folder / "checkpoint", checkpoints.TINY)
    tiny_autoencoders.write(folder / "taesd", **tiny_autoencoders.SHALLOW)
    (folder / WORDS).write_text("a red circle\ntwo blue squares\n")

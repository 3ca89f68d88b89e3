"""The demo checkpoint, a quarter of its U-Net pruned, in int8: recovered by training, and only refitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msd import api
from msd.models.demo import CHECKPOINT
from msd.train.comparison.compare import compare
from msd.train.comparison.model import ComparedModel

RECIPE = """
description = "gpu-w8, a quarter of the U-Net pruned"
delegate = "litert-gpu"
trunk = "float16"

[[line]]
store = "int8"

[prune]
budget = "25%"
"""
MADE = "pruned", "refitted", "recovered"
CALIBRATED_ON = 24
"""The captions of the refit's calibration, as many as for docs/pruning.md."""


def compare_recovered(
    work: Path,
    student: Path,
    prompts: Sequence[str],
    held_back: Sequence[str],
    only: Sequence[str] = MADE,
    recipe: str | None = None,
) -> dict[str, Any]:
    """Return the figures of conversions beside the whole model, `only` these of `MADE`.

    Converted files run on the CPU; the refit is calibrated on the first of `prompts`. With another `recipe`
    than that of `write_recipe`, "pruned" is a conversion without a calibration, and the others are with it:
    it rounds the other networks, and leaves a U-Net that was trained in int4 as it is.
    """
    captions = work / "calibration.txt"
    captions.write_text("\n".join(prompts[:CALIBRATED_ON]), "utf-8")
    source = {"recovered": student}
    calibrated = dict.fromkeys(("refitted", "recovered") if recipe else ("refitted",), captions)
    recipe = recipe or write_recipe(work)
    made = {
        name: api.convert(
            source.get(name, CHECKPOINT),
            work / f"{name}-files",
            recipe=recipe,
            calibration=calibrated.get(name),
        )
        for name in only
    }
    bytes_of = {name: bundle.component("unet").bytes for name, bundle in made.items()}
    columns = {name: _column(bundle.folder, held_back) for name, bundle in made.items()}
    return {"captions": len(held_back), "unet_bytes": bytes_of, "columns": columns}


def write_recipe(work: Path) -> str:
    """Write the recipe into a folder and return its path."""
    path = work / "quarter.toml"
    path.write_text(RECIPE, "utf-8")
    return str(path)


def _column(folder: Path, held_back: Sequence[str]) -> dict[str, Any]:
    """Return what the table says of a converted model beside the whole checkpoint."""
    pair = ComparedModel(CHECKPOINT), ComparedModel(folder)
    last = compare(*pair, held_back, batch=4, perceptual=False).result.columns[-1]
    return {name: value for name, value in asdict(last).items() if name not in ("images", "model")}

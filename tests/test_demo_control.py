"""The demo's ControlNet: images follow the edges asked for, in float32 and in int8."""

from __future__ import annotations

from pathlib import Path

import pytest

import msd
from scripts.lab.measure_control import CHECKPOINT, NAME, measured

SCENES = 4


@pytest.mark.parametrize("recipe", ["float32", "gpu-w8"])
def test_images_have_the_edges_asked_for(recipe: str, tmp_path: Path) -> None:
    """docs/results/control-demo.json has more scenes."""
    msd.convert(None, tmp_path, recipe=recipe, controlnets=[(CHECKPOINT, NAME)])
    steered, free = measured(tmp_path, SCENES, 1.0), measured(tmp_path, SCENES, 0.0)
    assert steered["overlap within 1 pixel"] >= 0.8
    assert free["overlap within 1 pixel"] <= 0.65
    assert steered["attributes"] >= 0.95

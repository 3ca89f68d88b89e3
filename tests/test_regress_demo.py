"""The suite that comes with msd, on the demo checkpoint: faults put in are seen, other changes pass.

docs/regress.md has the figures of every fault, from scripts/lab/measure_regress.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.rewrite import Target
from msd.measure.regress import metrics
from msd.measure.regress.compare import Result
from msd.measure.regress.regression import guard
from msd.measure.regress.suite import find_suite, read_suite
from msd.models.demo import CHECKPOINT, score
from msd.run.runtime.pipeline import Pipeline
from tests.faults import edited, scaled, swapped, untouched


def held(bundle: Path) -> Result:
    """Return what the demo's suite says of a bundle."""
    path = find_suite("demo")
    suite = read_suite(path)
    pipeline = Pipeline(open_bundle(bundle), scheduler=suite.drawing.scheduler)
    return guard(suite, pipeline, path.with_suffix("")).regress().result


def worst(result: Result) -> float:
    return result.pictures[0].rank[0]


def broken(result: Result) -> set[str]:
    """Return which thresholds are broken, by the worst picture or by all."""
    return {*result.pictures[0].broken, *(check.threshold for check in result.checks if check.broken)}


def test_a_re_export_passes(demo_int8: Path, tmp_path: Path) -> None:
    """Converted again, then read and written again: all that may differ is how this CPU rounds."""
    result = held(edited(demo_int8, tmp_path / "again", "unet", untouched))
    assert result.broken == []
    assert result.reconverted
    assert worst(result) > 85


def test_other_weights_for_the_same_model_pass(demo: Callable[[str], Path]) -> None:
    result = held(demo("float16"))
    assert result.broken == []
    assert not result.reconverted
    assert 47 < worst(result) < 60


FAULTS = {
    "one scale is 5 % off": scaled("up_blocks.1.resnets.1.time_emb_proj/kernel", 1.05),
    "two layers are swapped": swapped(
        "down_blocks.1.resnets.1.conv2/kernel", "down_blocks.2.resnets.0.conv2/kernel"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, demo_int8: Path, tmp_path: Path) -> None:
    result = held(edited(demo_int8, tmp_path / "faulty", "unet", FAULTS[fault]))
    assert result.reconverted
    assert worst(result) < 70
    assert broken(result) >= {"psnr_least", "psnr_median"}


def test_a_gelu_that_is_clipped_too_early_is_seen(tmp_path: Path) -> None:
    settings = Settings(graph_rewrites.load(), find_recipe("gpu-w8"), target=Target(gelu_clip=1.0))
    convert(CHECKPOINT, tmp_path / "clipped", settings)
    result = held(tmp_path / "clipped")
    assert worst(result) < 40
    assert len([p for p in result.pictures if p.broken]) == 8


def test_attributes_are_the_scorers(demo_int8: Path) -> None:
    assert metrics.is_demo(open_bundle(demo_int8))
    grey = np.full((128, 128, 3), 128, np.uint8)
    caption = "a red circle over a grey background"
    assert metrics.attributes(grey, caption) == score(grey, caption) > 0
    assert metrics.attributes(grey, "an astronaut") is None

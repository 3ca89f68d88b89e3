"""The time of an image: the networks' runs of long prompts and of tiles, and by what it is generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from msd.bundle import open_bundle
from msd.measure.bench.image_time import generate_timed, image_time
from msd.measure.bench.image_worker import answer
from msd.measure.bench.result import ImageTime
from msd.run.runners.backend import Backend
from msd.run.runners.child import Child
from msd.run.runtime.pipeline import Pipeline
from tests.app_bundles import write_bundle
from tests.test_bench import engine, measurement


def with_a_second_for_each(folder: Path) -> ImageTime:
    """Return the time of an image of ten steps where each network takes a second."""
    bundle = open_bundle(folder)
    measured = [measurement(name, 1.0) for name in bundle.manifest.components]
    found = image_time(bundle, "litert-cpu", measured, 10, None)
    assert found is not None
    return found


@pytest.mark.parametrize(("batch", "readings"), [(1, 6), (2, 3)])
def test_each_chunk_of_both_prompts_is_read(batch: int, readings: int, tmp_path: Path) -> None:
    found = with_a_second_for_each(write_bundle(tmp_path / "long", batch=batch, chunks=3))
    assert (found.encoding, found.step, found.decoding) == (readings, 2 / batch, 1)


@pytest.mark.parametrize(("tile", "runs"), [((4, 6), 1), ((2, 3), 4)])
def test_each_tile_is_encoded_and_decoded(tile: tuple[int, int], runs: int, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "tiles", encoder=True, inpaints=True, tile=tile)
    found = with_a_second_for_each(bundle)
    assert (found.encoding, found.step, found.decoding) == (2 + runs, 2, runs)


def test_the_chosen_gpu_api_generates_the_image(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the worker's own code, in this process; no network runs."""
    used = []

    def make(pipeline: Pipeline, *_: object, **__: object) -> None:
        used.append(pipeline.engine.conditions.gpu_api)

    monkeypatch.setattr(Backend, "prepare", lambda self, conditions: used.append(conditions.gpu_api))
    monkeypatch.setattr(Pipeline, "generate", make)
    monkeypatch.setattr(Child, "ask", lambda self, request: answer(request))
    generate_timed(open_bundle(bundle_folder), engine("webgpu", gpu_api="wgpu"), 2)
    assert used == ["wgpu", "wgpu"]

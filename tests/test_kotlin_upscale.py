"""The upscaler in Kotlin, run on a JVM, against the runtime: to the level, by parts, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app.manifest import NAME
from msd.export.app.upscaler import upscaler_facts
from msd.run.runners.engine import Engine
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import open_component
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.tiles import covered, spans
from msd.run.runtime.upscale import upscale
from tests import upscalers
from tests.app_bundles import HEIGHT, WIDTH, draw_with_sums, write_app
from tests.jvm import Jvm, Refused, Serve, floats, interpreted
from tests.placed_upscaler import COVERED, SIZES, SPANS, UNFIT_TILES, Network, photo
from tests.test_kotlin_pipeline import FIRST, LAST, STEPS_TOLD, generated, shown

UPSCALER = "upscaler"


def test_tiles_are_the_runtime_s(kotlin: Jvm) -> None:
    for case, found in zip(SPANS, kotlin.ask("spans", cases=SPANS), strict=True):
        wanted = spans(*case)
        assert [start for start, _ in found] == [span.start for span in wanted]
        for (_, shares), span in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(floats(shares), span.shares)
    assert kotlin.ask("covered", cases=COVERED) == [covered(*case) for case in COVERED]


def enlarged(
    kotlin: Jvm, facts: dict[str, Any], image: np.ndarray, serve: Serve | None = None
) -> dict[str, Any]:
    rgb = image.astype(np.int64)
    argb = (rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]) - (1 << 24)
    do = "enlarge served" if serve else "enlarge"
    answer: dict[str, Any] = kotlin.ask(
        do, serve, facts=facts, argb=argb.ravel().tolist(), size=image.shape[:2]
    )
    return answer


@pytest.mark.parametrize(("scale", "tile", "size"), SIZES)
def test_an_enlarged_image_is_the_runtime_s(
    scale: int, tile: tuple[int, int], size: tuple[int, int], kotlin: Jvm
) -> None:
    network, image = Network(scale, *tile), photo(*size)
    found = enlarged(kotlin, network.facts, image)
    np.testing.assert_array_equal(shown(found), upscale(network.bundle, network, image))  # type: ignore[arg-type]
    count = found["told"][-1][1]
    assert found["told"] == [[i, count] for i in range(1, count + 1)]


@pytest.mark.parametrize("name", ["compact-2", "large-4"])
def test_a_real_upscaler_s_image_is_the_runtime_s(name: str, kotlin: Jvm, tmp_path: Path) -> None:
    """Its network runs in LiteRT's interpreter, for Kotlin and for the runtime."""
    upscalers.write_sources(tmp_path, {name: upscalers.KINDS[name]})
    bundle = upscalers.convert_alone(tmp_path, name, "float32")
    facts = dataclasses.asdict(upscaler_facts(bundle))
    image = photo(131, 75)
    with interpreted(bundle) as serve:
        found = shown(enlarged(kotlin, facts, image, serve))
    with open_component(bundle, UPSCALER, Engine(find_backend("cpu"), Conditions(threads=1))) as network:
        wanted = upscale(bundle, network, image)
    np.testing.assert_array_equal(found, wanted)
    assert wanted.std() > 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_app(tmp_path_factory.mktemp("upscaler") / "app", upscaler=True)


def test_a_generated_image_is_enlarged_as_the_runtime_s(
    kotlin: Jvm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = generated(kotlin, folder, upscale=4)
    (found,) = seen["images"]
    draw_with_sums(monkeypatch)
    wanted = Pipeline(open_bundle(folder)).generate(
        "three red circles", negative_prompt="a blue square!", seed=9, steps=6, guidance=7.5, upscale=4
    )
    pixels = shown(found)
    assert pixels.shape == wanted.pixels.shape == (4 * 8 * HEIGHT, 4 * 8 * WIDTH, 3)
    assert np.abs(pixels - wanted.pixels.astype(int)).max() <= 1
    parts = [["enlarging", i, seen["told"][-1][2]] for i in range(1, seen["told"][-1][2] + 1)]
    assert seen["told"] == [*FIRST, *STEPS_TOLD, *LAST, ["compiling", "upscaler"], *parts]
    events = [event.rsplit(" ", 1)[0] for event in seen["events"]]
    last = ["open upscaler", *["run upscaler"] * len(parts), "close upscaler", "close unet"]
    assert events[events.index("open vae_decoder") :] == [
        "open vae_decoder", "run vae_decoder", "close vae_decoder", *last,
    ]  # fmt: skip


def test_an_upscaler_is_opened_only_where_it_is_asked_for(kotlin: Jvm, folder: Path) -> None:
    seen = generated(kotlin, folder)
    assert not [event for event in seen["events"] if "upscaler" in event]
    assert seen["images"][0]["size"] == [8 * HEIGHT, 8 * WIDTH]


def test_an_image_can_be_cancelled_between_two_tiles(kotlin: Jvm, folder: Path) -> None:
    seen = generated(kotlin, folder, upscale=4, cancelDuring="upscaler 2")
    assert seen["images"] == [{"error": "Cancelled", "message": "the image was cancelled"}]
    events = [event.rsplit(" ", 1)[0] for event in seen["events"]]
    assert events.count("run upscaler") == 2
    assert events[-2:] == ["close upscaler", "close unet"]


def test_a_tile_that_is_not_finite_ends_the_image(kotlin: Jvm, folder: Path) -> None:
    spoiled = {"role": UPSCALER, "by": "NaN", "all": False}
    (found,) = generated(kotlin, folder, upscale=4, spoiled=spoiled)["images"]
    assert found["error"] == "NoImage"
    assert found["message"].startswith("the image of the upscaler has 1 of 18432 values that are NaN")


def test_what_a_model_cannot_enlarge_is_refused(kotlin: Jvm, folder: Path, plain_app: Path) -> None:
    with pytest.raises(Refused, match="BadRequest: this model has no upscaler"):
        generated(kotlin, plain_app, upscale=4)
    with pytest.raises(Refused, match="BadRequest: the upscaler of this model enlarges 4 times, not 2"):
        generated(kotlin, folder, upscale=2)


@pytest.mark.parametrize("place", UNFIT_TILES)
def test_tiles_that_do_not_fit_the_network_are_refused(
    place: str, kotlin: Jvm, folder: Path, tmp_path: Path
) -> None:
    manifest = json.loads((folder / NAME).read_text("utf-8"))
    *inside, last = place.split(".")
    facts = manifest["upscaler"]["tiles"] if inside else manifest["upscaler"]
    facts[last] = UNFIT_TILES[place]
    (tmp_path / NAME).write_text(json.dumps(manifest), "utf-8")
    sentence = "BadManifest: the manifest has tiles of an upscaler that do not fit upscaler.tflite"
    with pytest.raises(Refused, match=sentence):
        kotlin.ask("manifest", folder=str(tmp_path))

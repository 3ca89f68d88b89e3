"""The page's upscaling in tiles, in Node.js, against the runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msd.run.runtime.tiles import covered, spans
from msd.run.runtime.upscale import upscale
from tests.placed_upscaler import COVERED, SIZES, SPANS, Network, photo
from tests.web.arrays import OPENING, floats, levels
from tests.web.node import evaluate

TILES = (
    OPENING
    + """
import { covered, spans } from './msd/tiles.js';
const [cases, sides] = input;
const found = cases.map((args) => spans(...args).map(({ start, shares }) => [start, sent(shares)]));
console.log(JSON.stringify([found, sides.map((args) => covered(...args))]));
"""
)
ENLARGE = (
    OPENING
    + """
import { enlarged, upscalerOf } from './msd/upscale.js';
const made = [];
for (const { facts, width, height, rgba, fault, cancel } of input[0]) {
  const { rows, columns } = facts.tiles;
  const [told, abort] = [[], new AbortController()];
  const file = {
    name: 'upscaler.tflite', role: 'upscaler', title: 'upscaler',
    inputs: [{ name: 'image', shape: [1, rows, columns, 3] }],
    outputs: [{ name: 'enlarged', shape: [1, facts.scale * rows, facts.scale * columns, 3] }],
  };
  const run = async ({ image }) => {
    const enlarged = new Float32Array(image.length * facts.scale ** 2);
    for (let i = 0, at = 0; at < enlarged.length; i++) {
      const [y, x] = [Math.floor(i / (columns * facts.scale)), i % (columns * facts.scale)];
      const from = 3 * (Math.floor(y / facts.scale) * columns + Math.floor(x / facts.scale));
      const place = ((y * 31 + x * 7) % 13) / 13;
      for (let c = 0; c < 3; c++) enlarged[at++] = 0.9 * image[from + c] + 0.1 * place;
    }
    if (fault) enlarged[5] = NaN;
    return { enlarged };
  };
  const onProgress = (said) => {
    told.push(said);
    if (said.tile === cancel) abort.abort();
  };
  const picture = { rgba: Uint8ClampedArray.from(rgba), width, height };
  const watch = { onProgress, signal: abort.signal };
  made.push(await enlarged({ files: [file] }, facts, { run }, picture, watch).then(
    (result) => ({ ...result, rgba: sent(result.rgba), told }),
    ({ code, message }) => ({ code, message, told: told.length }),
  ));
}
console.log(JSON.stringify(made));
"""
)


def asked(network: Network, image: np.ndarray, **more: Any) -> dict[str, Any]:
    rgba = np.dstack([image, np.full(image.shape[:2], 255, np.uint8)])
    size = {"height": image.shape[0], "width": image.shape[1]}
    return {"facts": network.facts, "rgba": rgba.ravel().tolist(), **size, **more}


def test_tiles_are_the_runtimes() -> None:
    cases, sides = evaluate(TILES, SPANS, COVERED)
    assert sides == [covered(*case) for case in COVERED]
    for case, found in zip(SPANS, cases, strict=True):
        wanted = spans(*case)
        assert [start for start, _ in found] == [span.start for span in wanted]
        for (_, shares), span in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(floats(shares), span.shares)


def test_an_enlarged_image_is_the_runtimes() -> None:
    """To the level: sums are rounded where NumPy rounds them."""
    networks = [Network(scale, *tile) for scale, tile, _ in SIZES]
    images = [photo(*size) for *_, size in SIZES]
    found = evaluate(ENLARGE, [asked(*pair) for pair in zip(networks, images, strict=True)])
    for network, image, made in zip(networks, images, found, strict=True):
        wanted = upscale(network.bundle, network, image)  # type: ignore[arg-type]
        rgba = levels(made["rgba"]).reshape(made["height"], made["width"], 4)
        assert (rgba[..., 3] == 255).all()
        np.testing.assert_array_equal(rgba[..., :3], wanted)
    told = found[0]["told"]
    assert [(said["stage"], said["tile"]) for said in told] == [("enlarging", i) for i in range(1, 17)]
    assert {said["tiles"] for said in told} == {16}


def test_a_tile_that_is_not_finite_and_a_cancelled_picture() -> None:
    network, image = Network(4, 32, 32), photo(64, 64)
    broken, ended = evaluate(ENLARGE, [asked(network, image, fault=True), asked(network, image, cancel=2)])
    assert broken["code"] == "failed"
    assert broken["message"].startswith("The image of the upscaler has 1 of 49152 values that are NaN")
    assert (ended["code"], ended["told"]) == ("cancelled", 2)


@pytest.mark.parametrize(
    ("upscaler", "upscale", "sentence"),
    [
        (None, True, "this model has no upscaler"),
        ({"scale": 4}, 2, "the upscaler of this model enlarges 4 times, not 2"),
        ({"scale": 4}, "large", "the upscaler of this model enlarges 4 times, not large"),
    ],
)
def test_what_a_model_cannot_enlarge(upscaler: Any, upscale: Any, sentence: str) -> None:
    script = """
    import { upscalerOf } from './msd/upscale.js';
    const [upscaler, upscale] = input;
    try { upscalerOf({ upscaler }, { upscale }); } catch ({ code, message }) {
      console.log(JSON.stringify([code, message]));
    }
    """
    assert evaluate(script, upscaler, upscale) == ["bad-request", sentence]


def test_which_scales_ask_for_the_upscaler() -> None:
    script = """
    import { upscalerOf } from './msd/upscale.js';
    const upscaler = { scale: 4 };
    console.log(JSON.stringify([true, 4, false, 0, undefined].map((upscale) =>
      upscalerOf({ upscaler }, { upscale }) !== null)));
    """
    assert evaluate(script) == [True, True, False, False, False]

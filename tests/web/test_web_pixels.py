"""Pixels of the page, run in Node.js, are the runtime's to the bit, and what is no number is refused."""

from __future__ import annotations

import numpy as np
import pytest

from msd.errors import NotFinite
from msd.run.runtime.finite import require_picture
from msd.run.runtime.image import image_of, pixels
from tests.web.arrays import OPENING, floats, levels, sent
from tests.web.node import evaluate

PIXELS = (
    OPENING
    + """
import { pixels } from './msd/pixels.js';
console.log(JSON.stringify(input.map((image) => sent(pixels(floats(image))))));
"""
)


def shown(image: np.ndarray) -> np.ndarray:
    """Return the page's pixels as rows of red, green, blue and alpha."""
    (found,) = evaluate(PIXELS, sent(image))
    return levels(found).reshape(-1, 4)


def test_pixels_are_rounded_and_cut_as_the_runtime_s() -> None:
    """Each half between two levels, the numbers on both sides of it, and what lies outside."""
    halves = ((np.arange(-2, 260) + 0.5) / 255 * 2 - 1).astype(np.float32)
    near = [np.nextafter(halves, np.float32(sign * 9)) for sign in (-1, 1)]
    random = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    image = np.concatenate(
        [halves, *near, random, np.float32([-7, 7, -1, 1, 0, -0.0, np.inf, -np.inf, 1e38])]
    )
    image = image[: len(image) // 3 * 3]
    found = shown(image)
    assert np.array_equal(found[:, :3].ravel(), pixels(image))
    assert (found[:, 3] == 255).all()
    assert len(np.unique(found)) == 256


def test_what_is_no_number_is_black() -> None:
    """NumPy leaves it to the processor; before that comes `requireFinite`, as in msd.run.runtime."""
    assert shown(np.float32([np.nan, 1, np.nan])).tolist() == [[0, 255, 0, 255]]


def test_results_of_networks_that_are_no_numbers_are_refused() -> None:
    script = """
    import { requireFinite } from './msd/finite.js';
    const values = Float32Array.of(1, NaN, -Infinity, 3e38);
    const same = requireFinite(values.subarray(3), 'it') .length;
    try {
      requireFinite(values, 'the output of the U-Net in step 3 of 20');
    } catch ({ code, message }) {
      console.log(JSON.stringify([same, code, message]));
    }
    """
    assert evaluate(script) == [
        1,
        "failed",
        "the output of the U-Net in step 3 of 20 has 2 of 4 values that are NaN or infinite,"
        " so no image was made; less guidance or another scheduler may help",
    ]


@pytest.mark.parametrize(("height", "width"), [(16, 24), (3, 40), (3, 3), (2, 9), (1, 1)])
def test_an_image_of_one_colour_is_refused_as_by_the_runtime(height: int, width: int) -> None:
    """What lies at the edges does not count; one number inside does, of whatever channel."""
    flat = np.tile(np.float32([0.25, -0.5, 1]), (height, width, 1))
    edge = max(1, min(height, width) // 8)
    framed, drawn = flat.copy(), flat.copy()
    framed[0], framed[:, -edge:] = 0.1, 0.2
    drawn[height // 2, width // 2, 2] = 0.9
    script = """
    import { requirePicture } from './msd/finite.js';
    const [height, width, ...images] = input;
    console.log(JSON.stringify(images.map((image) => {
      try {
        return requirePicture(floats(image), { width, height }, 'it').length;
      } catch ({ code, message }) {
        return [code, message.slice(0, 28)];
      }
    })));
    """
    lost = drawn.copy()
    lost[height // 2, width // 2, 0] = np.nan
    images = [flat, framed, drawn, lost]
    found = evaluate(OPENING + script, height, width, *map(sent, images))
    assert [answer == flat.size for answer in found] == [*map(passes, images)]
    if height == 16:
        assert found[0] == found[1] == ["failed", "it is one colour throughout,"]


def passes(image: np.ndarray) -> bool:
    try:
        require_picture(image, "it")
    except NotFinite:
        return False
    return True


def test_levels_become_numbers_as_the_runtime_s() -> None:
    script = """
    import { imageOf } from './msd/pixels.js';
    console.log(JSON.stringify(sent(imageOf(bytes(input[0])))));
    """
    rgba = np.random.default_rng(1).integers(0, 256, (3, 100, 4)).astype(np.uint8)
    found = floats(evaluate(OPENING + script, sent(rgba)))
    assert found.tobytes() == image_of(rgba[..., :3]).tobytes()

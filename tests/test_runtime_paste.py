"""What a mask keeps is pasted back: the same levels in Python, in the page's JavaScript and in Kotlin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from msd.run.runtime.image import image_of
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.paste import paste
from tests.jvm import Jvm
from tests.web.arrays import OPENING, levels, sent
from tests.web.node import evaluate

Case = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Generated levels and the original's, uint8 (height, width, 3), and a mask (height, width) of 0 and 1."""

Paste = Callable[[Case], np.ndarray]

SCRIPT = (
    OPENING
    + """
import { paste } from './msd/paste.js';
import { imageOf } from './msd/pixels.js';
const [generated, original, mask, width] = input;
const image = { pixels: imageOf(bytes(original)), mask: mask && floats(mask), width };
console.log(JSON.stringify(sent(paste(bytes(generated), image))));
"""
)


def in_python(case: Case) -> np.ndarray:
    generated, original, mask = case
    area = mask[None, ..., None].astype(np.float32)
    return paste(generated, InitialImage(image_of(original), area, ""))


def in_javascript(case: Case) -> np.ndarray:
    generated, original, mask = case
    opaque = [sent(np.dstack([image, np.full(mask.shape, 255, np.uint8)])) for image in (generated, original)]
    rgba = levels(evaluate(SCRIPT, *opaque, sent(mask.astype(np.float32)), mask.shape[1]))
    assert (rgba.reshape(-1, 4)[:, 3] == 255).all()
    return rgba.reshape(*mask.shape, 4)[..., :3]


def colours(image: np.ndarray) -> list[int]:
    red, green, blue = np.moveaxis(image.reshape(-1, 3).astype(np.int64), 1, 0)
    colors: list[int] = ((red << 16 | green << 8 | blue) - (1 << 24)).tolist()
    return colors


@pytest.fixture(params=["Python", "JavaScript", "Kotlin"])
def pasted(request: pytest.FixtureRequest) -> Paste:
    """What pastes in one of the languages."""
    if request.param != "Kotlin":
        return in_python if request.param == "Python" else in_javascript
    kotlin: Jvm = request.getfixturevalue("kotlin")

    def in_kotlin(case: Case) -> np.ndarray:
        generated, original, mask = case
        asked = {"generated": colours(generated), "kept": colours(original), "mask": mask.ravel().tolist()}
        argb = np.array(kotlin.ask("paste", width=mask.shape[1], **asked), np.int32)
        assert (argb.view(np.uint32) >> 24 == 255).all()
        return argb.view(np.uint8).reshape(*mask.shape, 4)[..., [2, 1, 0]]

    return in_kotlin


def random_case(height: int, width: int) -> Case:
    """Random levels, and a mask of discs, some of which touch the edges, and of single pixels."""
    random = np.random.default_rng(height)
    generated, original = random.integers(0, 256, (2, height, width, 3), np.uint8)
    rows, columns = np.mgrid[:height, :width]
    mask = np.zeros((height, width), np.int64)
    for radius in (1, 3, 7, 11):
        row, column = random.integers(0, height), random.integers(0, width)
        mask |= (rows - row) ** 2 + (columns - column) ** 2 < radius**2
    mask[5, 3] = 0
    return generated, original, mask


def wanted(case: Case) -> np.ndarray:
    """By the formula of docs/image-to-image.md, from the distance to every kept pixel, in exact integers."""
    generated, original, mask = case
    kept = np.argwhere(mask == 0)
    made = generated.copy()
    for y, x in np.ndindex(*mask.shape):
        depth = min(4, int(np.abs(kept - (y, x)).max(1).min())) if len(kept) else 4
        for channel in range(3):
            ours, theirs = int(generated[y, x, channel]), int(original[y, x, channel])
            made[y, x, channel] = (depth * ours + (4 - depth) * theirs + 2) // 4
    return made


def test_a_line_has_the_levels_of_the_formula(pasted: Paste) -> None:
    mask = np.array([[0, 1, 1, 1, 1, 1, 1, 0, 0, 1]])
    generated, original = (np.full((1, 10, 3), level, np.uint8) for level in (201, 100))
    found = pasted((generated, original, mask))[0]
    assert found[:, 0].tolist() == [100, 125, 151, 176, 176, 151, 125, 100, 100, 125]


@pytest.mark.parametrize("size", [(32, 48), (25, 17)], ids=str)
def test_every_level_is_that_of_the_formula(size: tuple[int, int], pasted: Paste) -> None:
    """What is kept is the original's, and from four pixels inside on, the mask changes nothing."""
    case = generated, original, mask = random_case(*size)
    found = pasted(case)
    assert np.array_equal(found, wanted(case))
    assert np.array_equal(found[mask == 0], original[mask == 0])
    assert not np.array_equal(found[mask == 1], generated[mask == 1])


def test_a_mask_of_all_changes_nothing(pasted: Paste) -> None:
    generated, original, mask = random_case(9, 14)
    assert np.array_equal(pasted((generated, original, np.ones_like(mask))), generated)

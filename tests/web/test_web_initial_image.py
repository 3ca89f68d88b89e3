"""An image to begin with, fitted by the page, is the one that `msd generate --image` feeds.

To the bit, where Pillow resamples across first and then down, as it did up to version 12; later ones choose
an order by the sizes, and what is rounded to 8 bits between the two differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from msd.graph.parity import psnr
from msd.run.runtime.initial_image import open_initial_image
from tests.photos import colours, resampling_across_first
from tests.web.arrays import OPENING, floats, sent
from tests.web.node import evaluate

FIT = (
    OPENING
    + """
import { initialImage, maskedPixels, strengthOf } from './msd/initial-image.js';
const photoOf = (photo) => photo && { ...photo, rgba: bytes(photo.rgba) };
console.log(JSON.stringify(input.map(([photo, mask, height, width, fit]) => {
  try {
    const image = initialImage(photoOf(photo), height, width, { mask: photoOf(mask), fit });
    const area = image.mask && sent(image.mask);
    const masked = sent(maskedPixels(image));
    const { description, width: across, height: down } = image;
    const said = { description, across, down, strength: strengthOf(image) };
    return { pixels: sent(image.pixels), mask: area, masked, ...said };
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  }
})));
"""
)


def photo(rgba: np.ndarray, name: str) -> dict[str, Any]:
    return {"rgba": sent(rgba), "width": rgba.shape[1], "height": rgba.shape[0], "name": name}


@pytest.fixture(autouse=True, scope="module")
def across_first() -> Iterator[None]:
    with resampling_across_first():
        yield


Case = tuple[np.ndarray, np.ndarray | None, int, int, str]


def require_same(cases: list[Case], folder: Path) -> None:
    """Require that each image and mask becomes what the runtime makes of the file, and is described alike."""
    asked = [
        [photo(rgba, "a.png"), None if mask is None else photo(mask, "m.png"), *rest]
        for rgba, mask, *rest in cases
    ]
    for (rgba, mask, height, width, fit), found in zip(cases, evaluate(FIT, *asked), strict=True):
        Image.fromarray(rgba).save(folder / "a.png")
        if mask is not None:
            Image.fromarray(mask).save(folder / "m.png")
        path = None if mask is None else folder / "m.png"
        wanted = open_initial_image(folder / "a.png", height, width, fit, path)  # type: ignore[arg-type]
        size = f"{rgba.shape} to {height}x{width}, {fit}"
        assert (found["across"], found["down"]) == (width, height)
        assert floats(found["pixels"]).tobytes() == wanted.pixels.tobytes(), size
        assert found["description"] == wanted.description
        kept = 1 if wanted.mask is None else 1 - wanted.mask
        assert np.array_equal(floats(found["masked"]).reshape(wanted.pixels.shape), wanted.pixels * kept)
        assert (found["mask"] is None) == (wanted.mask is None)
        assert found["strength"] == (0.8 if mask is None else 1)
        if wanted.mask is not None:
            assert np.array_equal(floats(found["mask"]), wanted.mask.ravel()), size


FITS = st.sampled_from(["crop", "stretch"])
SIZES = [
    (24, 40),
    (72, 120),
    (48, 80),
    (48, 120),
    (90, 50),
    (1, 1),
    (1, 77),
    (200, 3),
    (25, 41),
    (11, 19),
    (313, 217),
]


@pytest.mark.parametrize("fit", ["crop", "stretch"])
@pytest.mark.parametrize("alpha", [False, True])
def test_any_image_is_fitted_as_the_runtime_s(fit: str, alpha: bool, tmp_path: Path) -> None:
    """Enlarged and reduced, cut across and down, opaque and transparent."""
    targets = [(24, 40), (64, 48)]
    cases: list[Case] = [
        (colours(*size, seed=i, alpha=alpha), None, *target, fit)
        for i, size in enumerate(SIZES)
        for target in targets
    ]
    require_same(cases, tmp_path)


@settings(max_examples=4)
@given(
    cases=st.lists(
        st.tuples(*[st.integers(1, 90)] * 2, *[st.integers(1, 64)] * 2, FITS, st.integers(0, 99)),
        min_size=30,
        max_size=30,
    )
)
def test_any_size_fits_any_other(
    cases: list[tuple[int, int, int, int, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    images: list[Case] = [
        (colours(rows, columns, seed, alpha=seed % 2 == 0), None, height, width, fit)
        for rows, columns, height, width, fit, seed in cases
    ]
    require_same(images, tmp_path_factory.mktemp("images"))


@pytest.mark.parametrize("fit", ["crop", "stretch"])
def test_a_mask_is_fitted_as_the_runtime_s(fit: str, tmp_path: Path) -> None:
    """It counts by its brightness; what is transparent in it is not repainted."""
    cases: list[Case] = [
        (colours(*size, seed=i), colours(*size, seed=i + 50, alpha=i % 2 == 1), 24, 40, fit)
        for i, size in enumerate([(24, 40), (72, 120), (90, 50), (313, 217), (20, 19)])
    ]
    require_same(cases, tmp_path)


def test_a_photo_of_twelve_megapixels_is_fitted_as_the_runtime_s(tmp_path: Path) -> None:
    require_same([(colours(3000, 4000, seed=1), None, 512, 512, "crop")], tmp_path)


@pytest.mark.parametrize("size", [(90, 50), (313, 217), (24, 400), (400, 24)])
def test_pillow_s_own_order_makes_almost_the_same_image(size: tuple[int, int]) -> None:
    """At least 45 dB, for an image stretched the most; its edges overshoot, and its noise is strong."""
    rgba = colours(*size, seed=3)
    (found,) = evaluate(FIT, [photo(rgba, "a.png"), None, 64, 48, "stretch"])
    cropped = Image.fromarray(rgba).convert("RGB").resize((48, 64), Image.Resampling.LANCZOS)
    assert psnr(np.asarray(cropped), (floats(found["pixels"]).reshape(64, 48, 3) + 1) * 127.5) >= 45


def test_masks_that_do_not_fit_are_refused() -> None:
    image, black = colours(30, 50, 0), np.zeros((30, 50, 4), np.uint8)
    black[..., 3] = 255
    unlike, beside = colours(50, 30, 0), black.copy()
    beside[:, :5] = 255
    asked = [
        [photo(image, "a.png"), photo(mask, "m.png"), 32, 32, "crop"] for mask in (unlike, black, beside)
    ]
    nothing = "bad-request: the mask has no opaque white pixel where the image is used; "
    nothing += "white says what to repaint"
    assert evaluate(FIT, *asked) == [
        "bad-request: the mask has 30×50 pixels and the image has 50×30 pixels; they should be equal",
        nothing,
        nothing,
    ]

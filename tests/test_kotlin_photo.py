"""Photos that the Kotlin sources crop and resize are the ones that `msd generate --image` feeds, to the bit.

Where Pillow resamples across first and then down, as in tests/web/test_web_initial_image.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from msd.export.app.manifest import NAME, dump_manifest, load_manifest
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import open_initial_image
from tests.app_bundles import write_app
from tests.jvm import Jvm
from tests.photos import colours, resampling_across_first

SIZES = [(24, 40), (72, 120), (48, 80), (48, 120), (90, 50), (1, 1), (1, 77), (200, 3), (25, 41), (313, 217)]


@pytest.fixture(autouse=True, scope="module")
def across_first() -> Iterator[None]:
    with resampling_across_first():
        yield


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_app(tmp_path_factory.mktemp("fitting") / "app")


def require_same(kotlin: Jvm, app: Path, rgba: np.ndarray, height: int, width: int) -> None:
    """Require that a photo becomes what the runtime makes of it for a model of this size."""
    path = app / "photo.png"
    Image.fromarray(rgba).save(path)
    whole = (app / NAME).read_text("utf-8")
    try:
        (app / NAME).write_text(dump_manifest(replace(load_manifest(app / NAME), height=height, width=width)))
        blue_first = np.ascontiguousarray(rgba[..., [2, 1, 0, 3]])
        size = {"width": rgba.shape[1], "height": rgba.shape[0]}
        found = kotlin.ask(
            "fitted", folder=str(app), argb=base64.b64encode(blue_first.tobytes()).decode(), **size
        )
    finally:
        (app / NAME).write_text(whole)
    wanted = pixels(open_initial_image(path, height, width).pixels)[0]
    levels = np.array(found, np.int32).view(np.uint8).reshape(height, width, 4)
    assert np.array_equal(levels[..., [2, 1, 0]], wanted), f"{rgba.shape} to {height}x{width}"
    assert np.all(levels[..., 3] == 255)


@pytest.mark.parametrize("target", [(24, 40), (64, 48)], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_photo_is_fitted_as_the_runtime_s(
    size: tuple[int, int], target: tuple[int, int], kotlin: Jvm, app: Path
) -> None:
    """Enlarged and reduced, cut across and down, opaque and transparent."""
    for alpha in (False, True):
        require_same(kotlin, app, colours(*size, seed=size[0], alpha=alpha), *target)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 90)] * 2, *[st.integers(1, 64)] * 2),
    seed=st.integers(0, 99),
    alpha=st.booleans(),
)
def test_any_size_fits_any_other(
    sizes: tuple[int, int, int, int], seed: int, alpha: bool, kotlin: Jvm, app: Path
) -> None:
    rows, columns, height, width = sizes
    require_same(kotlin, app, colours(rows, columns, seed, alpha=alpha), height, width)

"""The edges that the page finds in a picture are those of `msd generate --from-photo`, by scikit-image."""

from __future__ import annotations

import numpy as np
import pytest

from msd.run.runtime.image import image_of
from tests.edge_pictures import PICTURES, require_edges
from tests.web import arrays
from tests.web.node import evaluate

FIND = f"""
import {{ edgesOf }} from './msd/canny.js';
{arrays.OPENING}
const [text, width, height] = input;
console.log(JSON.stringify(sent(edgesOf(floats(text), width, height))));
"""


@pytest.mark.parametrize("name", PICTURES)
def test_edges_are_the_runtime_s(name: str) -> None:
    picture = PICTURES[name]
    height, width, _ = picture.shape
    pixels = arrays.floats(evaluate(FIND, arrays.sent(image_of(picture)), width, height)).reshape(-1, 3)
    assert set(np.unique(pixels)) <= {-1.0, 1.0}
    assert np.ptp(pixels, axis=1).max() == 0, "grey"
    require_edges(pixels[:, 0] > 0, picture)

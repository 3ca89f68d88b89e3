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


STEER = f"""
import {{ requireOnePicture, steeringBy }} from './msd/control.js';
{arrays.OPENING}
const [text, width, height, control] = input;
const pixels = floats(text);
const found = steeringBy({{ ...control, pixels }}, {{ width, height }});
let refusal = null;
try {{
  requireOnePicture('canny', new Float32Array());
  requireOnePicture('canny', pixels);
}} catch ({{ code, message }}) {{
  refusal = [code, message];
}}
console.log(JSON.stringify({{ ...found, pixels: sent(found.pixels), refusal }}));
"""


def test_the_pixels_of_a_photo_steer_by_their_edges() -> None:
    """Given by a program, not as a file; and where both are given, it is not said which is the picture."""
    picture = next(iter(PICTURES.values()))
    height, width, _ = picture.shape
    own = image_of(picture)

    def steering(**control: object) -> tuple[np.ndarray, dict[str, object]]:
        found = evaluate(STEER, arrays.sent(own), width, height, {"name": "canny", "scale": 0.5, **control})
        return arrays.floats(found.pop("pixels")).reshape(-1, 3), found

    edges, facts = steering(fromPhoto=True)
    require_edges(edges[:, 0] > 0, picture)
    message = "the control canny has pixels and an image; one of them is its picture"
    refusal = {"refusal": ["bad-request", message]}
    assert facts == {"name": "canny", "scale": 0.5, "description": "the edges of a picture", **refusal}
    assert steering(fromPhoto=True, description="a dog")[1]["description"] == "the edges of a dog"
    for control in ({}, {"fromPhoto": False}):
        unchanged, facts = steering(**control)
        np.testing.assert_array_equal(unchanged, own.reshape(-1, 3))
        assert "description" not in facts


@pytest.mark.parametrize("name", PICTURES)
def test_edges_are_the_runtime_s(name: str) -> None:
    picture = PICTURES[name]
    height, width, _ = picture.shape
    pixels = arrays.floats(evaluate(FIND, arrays.sent(image_of(picture)), width, height)).reshape(-1, 3)
    assert set(np.unique(pixels)) <= {-1.0, 1.0}
    assert np.ptp(pixels, axis=1).max() == 0, "grey"
    require_edges(pixels[:, 0] > 0, picture)

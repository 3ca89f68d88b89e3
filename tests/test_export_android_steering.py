"""Pictures that steer, chosen on the app's screen, and an image that it enlarges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import open_initial_image
from tests.android_projects import Projects, home_of
from tests.app_bundles import HEIGHT, WIDTH, write_app
from tests.edge_pictures import require_edges
from tests.jvm import Jvm
from tests.kotlinc import class_path, library
from tests.photos import colours, resampling_across_first

UNREADABLE = "This photo cannot be read. Choose another one."
BOTH = {"controls": ("canny", "depth"), "upscaler": True}


def shown(
    scale: str, begin: int, until: int, photo: bool = True, said: str = "", edges: bool = False
) -> list[Any]:
    """What a screen shows of a picture: see tests/kotlin_studio/Steering.kt."""
    places = [f"{begin // 5} of 19", f"{until // 5 - 1} of 19"]
    labels = [f"From {begin} % of the steps on", f"Until {until} % of the steps"]
    return [photo, said, edges, scale, *places, *labels]


def levels(argb: list[int]) -> np.ndarray:
    """Return colours as uint8 (pixels, 3)."""
    blue_first = np.array(argb, np.int32).view(np.uint8).reshape(-1, 4)
    return blue_first[:, [2, 1, 0]]


def test_an_image_is_steered_by_a_chosen_picture_and_enlarged(
    android_projects: Projects, tmp_path: Path
) -> None:
    """By its edges, with a number that counts beyond none and is at first too large.

    What ends before it begins is moved; the ControlNet without a picture is not opened.
    """
    photo, broken = tmp_path / "photo.png", tmp_path / "broken.png"
    Image.fromarray(colours(90, 77, seed=3, alpha=True)).save(photo)
    broken.write_bytes(photo.read_bytes()[:90])
    home = home_of(write_app(tmp_path / "model", **BOTH), tmp_path / "home")
    with android_projects.start() as process:
        seen = process.ask("steer", home=str(home), photo=str(photo), broken=str(broken))
    texts = ["Steer by a picture: canny", "Steer by a picture: depth", "Enlarge ×4"]
    assert seen["offered"] == [True, False, True, *texts]
    assert seen["at first"] == shown("", 0, 100, photo=False)
    assert seen["ready"] == shown("", 0, 100)
    assert seen["kept"] == shown("-1000.5", 65, 70, edges=True)
    assert seen["refused"] == "This is a number from -1000 to 1000."
    with resampling_across_first():
        wanted = pixels(open_initial_image(photo, HEIGHT * 8, WIDTH * 8).pixels)[0]
    assert np.array_equal(levels(seen["picture"]).reshape(wanted.shape), wanted)
    for argb in (seen["edges"], seen["pixels"]):
        require_edges(levels(argb)[:, 0] > 0, wanted)
    assert seen["guess"] is True
    steering = [{"name": "depth", "counts": [-0.7, 0.65, 0.7]}]
    assert seen["steered"] == {"controls": steering, "guess": True, "upscale": 4}
    assert seen["size"] == [4 * 8 * HEIGHT, 4 * 8 * WIDTH]
    assert "controlnet_depth" in seen["compiled"]
    assert "upscaler" in seen["compiled"]
    assert "controlnet_canny" not in seen["compiled"]
    parts = [phase for phase in seen["phases"] if phase.startswith("ENLARGING")]
    assert parts == [f"ENLARGING {i}/{len(parts)}" for i in range(1, len(parts) + 1)]
    assert len(parts) > 1
    assert seen["earlier"] == shown("-0.7", 10, 15, edges=True)
    assert seen["broken"] == shown("", 0, 100, photo=False, said=UNREADABLE)
    assert seen["removed"] == [*shown("-0.7", 10, 15, photo=False, edges=True), False]
    assert seen["plain"] == {"controls": [], "guess": False}
    assert seen["plain size"] == [8 * HEIGHT, 8 * WIDTH]


@pytest.mark.parametrize(
    ("model", "level", "steers", "enlarges"),
    [
        ({}, 34, False, False),
        ({"upscaler": True}, 34, False, True),
        (BOTH, 28, True, True),
        (BOTH, 27, False, True),
    ],
)
def test_a_screen_offers_what_the_model_and_the_phone_can(
    model: dict[str, Any],
    level: int,
    steers: bool,
    enlarges: bool,
    android_projects: Projects,
    tmp_path: Path,
) -> None:
    """Before Android 9 photos would lie on their side."""
    home = home_of(write_app(tmp_path / "model", **model), tmp_path / "home")
    jars = class_path([android_projects.jar, *library()])
    version = f"-Dandroid.os.Build.VERSION.SDK_INT={level}"
    with Jvm(jars, "com.example.assets.ScenariosKt", version) as process:
        assert process.ask("offers", home=str(home)) == {"steers": steers, "enlarges": enlarges}

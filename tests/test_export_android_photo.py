"""A photo that the app begins from: chosen on the screen, shown, kept while the phone turns, and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from msd.bundle import open_bundle
from msd.errors import BadBundle
from msd.export.android.export import export_android, plan
from msd.export.android.settings import AndroidSettings
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import open_initial_image
from tests.android_projects import Projects, home_of
from tests.app_bundles import HEIGHT, WIDTH, write_app, write_bundle
from tests.jvm import Jvm
from tests.kotlinc import class_path, library
from tests.photos import colours, resampling_across_first

UNREADABLE = "This photo cannot be read. Choose another one."
LABEL = "How much of the photo changes: {} %"
PSNR = 30
OLD = "-Dandroid.os.Build.VERSION.SDK_INT={}"


def shown(strength: int, place: str, photo: bool = True, said: str = "", generate: bool = True) -> list[Any]:
    """What a screen shows of a photo: see tests/kotlin_studio/Photos.kt."""
    return [photo, said, LABEL.format(strength), f"{strength} %", place, generate]


def test_an_image_begins_from_a_photo_that_was_chosen_on_the_screen(
    android_projects: Projects, tmp_path: Path
) -> None:
    """Of the least number of steps, 2, strengths from 50 % on leave one; of 6, those from 20 % on."""
    photo = tmp_path / "photo.png"
    Image.fromarray(colours(90, 77, seed=3, alpha=True)).save(photo)
    (tmp_path / "broken.png").write_bytes(photo.read_bytes()[:90])
    with android_projects.start() as process:
        home = str(android_projects.home(tmp_path))
        seen = process.ask("photo", home=home, photo=str(photo), broken=str(tmp_path / "broken.png"))
    assert seen["at first"] == [True, *shown(80, "3 of 5", photo=False)]
    assert seen["asked"] == ["android.provider.action.PICK_IMAGES", "image/*"]
    assert seen["reading"] == shown(80, "3 of 5", photo=False, said="Reading the photo", generate=False)
    assert seen["ready"] == shown(80, "3 of 5")
    assert (seen["few"], seen["kept"]) == (shown(50, "0 of 5"), shown(40, "2 of 8"))
    with resampling_across_first():
        wanted = pixels(open_initial_image(photo, HEIGHT * 8, WIDTH * 8).pixels)[0]
    for argb in (seen["picture"], seen["begun"]["argb"]):
        levels = np.array(argb, np.int32).view(np.uint8).reshape(*wanted.shape[:2], 4)
        assert np.array_equal(levels[..., [2, 1, 0]], wanted)
    assert (seen["begun"]["strength"], seen["steps"]) == (0.4, 0)
    assert "vae_encoder" in seen["compiling"]
    assert seen["cancelled"] == shown(40, "2 of 8")
    assert seen["broken"] == shown(40, "2 of 8", photo=False, said=UNREADABLE)
    assert seen["without"] is True
    assert seen["cured"] == shown(40, "2 of 8")
    assert seen["removed"] == shown(40, "2 of 8", photo=False)
    assert seen["picture removed"] is True


def test_a_large_photo_is_decoded_at_a_size_near_the_models(
    android_projects: Projects, tmp_path: Path
) -> None:
    """The smaller bitmap keeps what the model's size can show: 30 dB and more from resampling all of it."""
    photo = tmp_path / "photo.png"
    smooth = Image.fromarray(colours(9, 8, seed=3)).resize((1300, 1100), Image.Resampling.BICUBIC)
    smooth.save(photo)
    with android_projects.start() as process:
        home = str(android_projects.home(tmp_path))
        seen = process.ask("photo", home=home, photo=str(photo), broken=str(photo))
    twice = 4 * WIDTH * 8 * HEIGHT * 8
    assert twice <= seen["decoded"] <= 2 * twice
    wanted = pixels(open_initial_image(photo, HEIGHT * 8, WIDTH * 8).pixels)[0]
    levels = np.array(seen["picture"], np.int32).view(np.uint8).reshape(*wanted.shape[:2], 4)
    error = np.mean((levels[..., [2, 1, 0]].astype(float) - wanted) ** 2)
    assert 10 * np.log10(255**2 / error) > PSNR


def test_the_photo_that_was_chosen_last_counts(android_projects: Projects) -> None:
    model = str(android_projects.folder / "assets/sd-runtime/src/main/assets/sd-models")
    with android_projects.start() as process:
        seen = process.ask("photos", folder=model)
    assert seen == {"removed": True, "color": [len("content://a/longest")], "ready": 1, "problem": "gone"}


@pytest.mark.parametrize("inpaints", [False, True])
def test_a_model_that_cannot_begin_from_a_photo_alone_offers_none(
    inpaints: bool, android_projects: Projects, tmp_path: Path
) -> None:
    model = write_app(tmp_path / "model", encoder=inpaints, inpaints=inpaints)
    with android_projects.start() as process:
        seen = process.ask("hidden", home=str(home_of(model, tmp_path / "home")))
    assert (seen["can"], seen["visible"]) == (inpaints, False)


def test_a_model_that_needs_a_mask_is_exported_without_the_app(tmp_path: Path) -> None:
    """The library takes a mask, so an app of somebody's own may give it one."""
    bundle = open_bundle(write_bundle(tmp_path / "bundle", encoder=True, inpaints=True))
    with pytest.raises(BadBundle, match="the app has no masks; export without --app, and give the library"):
        export_android(bundle, tmp_path / "out", AndroidSettings(app=True))
    assert not (tmp_path / "out").exists()
    assert plan(bundle, AndroidSettings()).manifest.image is not None


@pytest.mark.parametrize(
    ("level", "visible", "asked"),
    [
        (27, False, "android.intent.action.OPEN_DOCUMENT image/* true"),
        (28, True, "android.intent.action.OPEN_DOCUMENT image/* true"),
        (32, True, "android.intent.action.OPEN_DOCUMENT image/* true"),
        (33, True, "android.provider.action.PICK_IMAGES image/* false"),
    ],
)
def test_an_older_phone_shows_its_documents_and_one_too_old_nothing(
    level: int, visible: bool, asked: str, android_projects: Projects, tmp_path: Path
) -> None:
    path = class_path([android_projects.jar, *library()])
    with Jvm(path, "com.example.assets.ScenariosKt", OLD.format(level)) as process:
        seen = process.ask("hidden", home=str(android_projects.home(tmp_path)))
    assert (seen["visible"], seen["asked"]) == (visible, [asked])


def test_a_phone_without_any_picker_says_so(android_projects: Projects, tmp_path: Path) -> None:
    with android_projects.start() as process:
        seen = process.ask("no picker", home=str(android_projects.home(tmp_path)))
    assert seen["shown"][:2] == [False, "This phone has no app to choose a photo with."]

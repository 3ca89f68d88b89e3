"""The app's studio on a stand-in phone, and the whole app with its screen, run on a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.android_projects import GRAY, Projects
from tests.app_bundles import HEIGHT, WIDTH
from tests.jvm import Jvm, Refused
from tests.kotlinc import class_path, library

FETCHING = ["WAITING_FOR_WIFI", "NEEDS_CONSENT", "FETCHING 5/15", "FETCHING 15/15"]
OPENING = ["CHECKING_DEVICE", *FETCHING, "CHECKING_FILES 1/2"]
STEPS = ["DENOISING 1/2", "DENOISING 2/2", "DECODING", "DONE"]
FIRST = [*OPENING, "COMPILING", "ENCODING", "COMPILING", *STEPS]
OPENED = ["ENCODING", "COMPILING", "ENCODING", "COMPILING", *STEPS]
"""The phases of an image when the pipeline is open already."""

KEPT = ["ENCODING", "COMPILING", "ENCODING", *STEPS]
"""The same when the U-Net was kept, too."""

REMARK = "The model hardly knows these words: circle"
COMPILING = "Compiling the model for the GPU. The first time takes longest."
ANDROID_9 = "-Dandroid.os.Build.VERSION.SDK_INT=28"
WRITE = "android.permission.WRITE_EXTERNAL_STORAGE"


@pytest.fixture(scope="module")
def app(android_projects: Projects) -> Iterator[Jvm]:
    with android_projects.start() as process:
        yield process


@pytest.fixture(scope="module")
def model(android_projects: Projects) -> str:
    """The folder of a model with its manifest."""
    return str(android_projects.folder / "assets/sd-runtime/src/main/assets/sd-models")


def test_an_image_is_generated_in_order_and_the_model_is_opened_once(app: Jvm, model: str) -> None:
    seen = app.ask("generate", folder=model)
    assert seen["phases"] == ["IDLE", *FIRST]
    assert seen["steps"] == [2, 6]
    assert seen["again"] == [*KEPT[:3], *(f"DENOISING {n}/6" for n in range(1, 7)), "DECODING", "DONE"]
    assert [name for name in seen["asked"] if not name.startswith("compile")] == [
        *("check", "wait", "fetch", "open")
    ]
    assert set(np.array(seen["argb"]) & 0xFF) == {GRAY}
    assert seen["schedules"] == [2, 6]


HELD = {
    "check": (OPENING[:1], FIRST),
    "wait": (OPENING[:2], FIRST),
    "fetch": (OPENING[:4], FIRST),
    "open": (OPENING, FIRST),
    "compile text_encoder": (FIRST[:-6], OPENED),
    "run text_encoder": (FIRST[:-5], OPENED),
    "compile unet": (FIRST[:-4], KEPT),
    "run unet": (FIRST[:-4], KEPT),
    "run vae_decoder": (FIRST[:-4], KEPT),
}
"""At which step of the phone an image is cancelled, the phases until then, and those of the next image.

The decoder runs for a preview, before the first step is reported.
"""


@pytest.mark.parametrize("held", HELD)
def test_a_cancelled_image_ends_whatever_is_done_and_the_next_begins(held: str, app: Jvm, model: str) -> None:
    """What the cancelled one still reports while the next is generated changes nothing."""
    seen = app.ask("cancel", folder=model, held=held)
    before, again = HELD[held]
    assert seen["phases"] == ["IDLE", *before, "CANCELLING", "CANCELLED"]
    assert seen["again"] == again
    assert seen["opened"] == (2 if held == "open" else 1)


@pytest.mark.parametrize(
    ("step", "kind", "problem"),
    [
        ("check", "BadDevice", "dev.msd.runtime.BadDevice: this device has 2.0 GB of memory"),
        ("open", "OutOfMemoryError", "java.lang.OutOfMemoryError: no memory"),
        ("run unet", "UnsatisfiedLinkError", "java.lang.UnsatisfiedLinkError: no library"),
    ],
)
def test_what_fails_is_shown_and_can_be_tried_again(
    step: str, kind: str, problem: str, app: Jvm, model: str
) -> None:
    seen = app.ask("fail", folder=model, step=step, kind=kind)
    assert seen["problem"].startswith(problem)
    assert seen["after"] is True
    at = seen["phases"].index("FAILED")
    assert seen["phases"][-1] == "DONE"
    assert seen["phases"][at + 1 :] == (KEPT if step == "run unet" else FIRST)


def test_a_download_that_is_cancelled_elsewhere_is_no_failure(app: Jvm, model: str) -> None:
    seen = app.ask("cancel elsewhere", folder=model)
    assert seen["phases"] == ["IDLE", *OPENING[:4], "CANCELLED"]
    assert seen["problem"] is False


def test_a_screen_that_comes_sees_the_state_that_the_last_one_saw(app: Jvm, model: str) -> None:
    seen = app.ask("rotate", folder=model)
    assert seen["same"] is True
    assert seen["more"] == 0
    assert seen["landscape"] == ["COMPILING", "DENOISING 1/2", "DENOISING 2/2", "DECODING", "DONE"]
    assert (seen["image"], seen["opened"]) == (True, 1)


def test_an_image_that_cannot_be_saved_can_be_saved_again(app: Jvm, model: str) -> None:
    seen = app.ask("save", folder=model)
    assert (seen["problem"], seen["cured"]) == ("the disk is full", True)
    assert seen["saved"] == "content://gallery/seed-7"
    assert seen["phases"] == ["DONE", "SAVING", "DONE", "SAVING", "DONE"]


def test_an_image_can_be_saved_in_the_moment_in_which_it_is_finished(app: Jvm, model: str) -> None:
    seen = app.ask("save at once", folder=model)
    assert seen["phases"] == ["DECODING", "DONE", "SAVING", "DONE"]
    assert seen["saved"] == "content://gallery/seed-7"


@pytest.mark.parametrize("noise", [0, 1, 9, 200])
def test_the_instrumented_test_measures_psnr(noise: int, app: Jvm) -> None:
    random = np.random.default_rng(noise)
    first = random.integers(0, 256, (40, 3))
    second = np.clip(first + random.integers(-noise, noise + 1, first.shape), 0, 255)
    found = float(app.ask("psnr", image=argb(first), reference=argb(second))["psnr"])
    with np.errstate(divide="ignore"):
        wanted = 20 * np.log10(255 / np.sqrt(np.mean((first - second) ** 2.0)))
    assert found == pytest.approx(wanted)


def test_images_of_unlike_sizes_are_not_compared(app: Jvm) -> None:
    with pytest.raises(Refused, match="an image of 2 pixels cannot be compared with one of 1"):
        app.ask("psnr", image=[1, 2], reference=[1])


def argb(rgb: Any) -> list[int]:
    colours = (255 << 24) + (rgb[:, 0] << 16) + (rgb[:, 1] << 8) + rgb[:, 2]
    return np.array(colours, np.uint32).view(np.int32).tolist()


def test_the_screen_turns_while_an_image_is_generated_which_is_saved_and_shared(
    android_projects: Projects, tmp_path: Path
) -> None:
    with android_projects.start() as process:
        seen = process.ask("screen", home=str(android_projects.home(tmp_path)))
    assert seen["at first"] == ["generate"]
    assert seen["refused"] == "A seed is a whole number from 0 to 9223372036854775807."
    assert (seen["unguided"], seen["guidance"]) == ("Guidance is a number from 0 to 1000.", 3.5)
    assert seen["turned"] == ["cancel", f"{COMPILING}\n{REMARK}", "true"]
    assert seen["done"] == ["generate", "save", f"Seed 7\n{REMARK}", "false"]
    assert seen["saved"] == ["generate", "share", f"Saved in Pictures/Stable Diffusion\n{REMARK}"]
    assert seen["left"] == f"{COMPILING}\n{REMARK}"
    assert (seen["described"], seen["shown"]) == ("The image for: a red circle", WIDTH * 8)
    assert seen["gallery"] == [f"PNG {WIDTH * 8}x{HEIGHT * 8}", 1, 0]
    assert seen["shared"] == ["android.intent.action.CHOOSER"]
    assert seen["environments"] == 1
    assert seen["phases"][-3:] == ["DONE", "SAVING", "DONE"]


@pytest.mark.parametrize(
    ("level", "failure"), [(None, None), (0, "dB from the expected one, less than 30.0")]
)
def test_the_instrumented_test_runs_with_junit(
    level: int | None, failure: str | None, android_projects: Projects, tmp_path: Path
) -> None:
    """As far as a JVM goes: Android's runner of tests, and a phone, are not here."""
    resources = android_projects.folder / "assets/app/src/androidTest/resources"
    if level is not None:
        resources = spoiled(resources, tmp_path / "resources", level)
    with android_projects.start(resources) as process:
        seen = process.ask("instrumented", home=str(android_projects.home(tmp_path)))
    assert seen["run"] == 1
    assert len(seen["failures"]) == (1 if failure else 0)
    assert all(failure in said for said in seen["failures"] if failure)


def test_the_screen_stays_on_while_the_phone_computes_and_not_while_it_waits(app: Jvm) -> None:
    """A question about mobile data may wait for hours, and a download needs no screen."""
    assert app.ask("awake")["phases"] == [
        *("CHECKING_DEVICE", "CHECKING_FILES", "COMPILING", "ENCODING", "DENOISING", "DECODING"),
        "ENLARGING",
    ]


def test_android_9_saves_with_a_permission_and_says_what_is_missing_without(
    android_projects: Projects, tmp_path: Path
) -> None:
    """The second image of a seed takes another name than the one that is there."""
    storage = tmp_path / "storage"
    there = storage / "Pictures/Stable Diffusion/seed-7.png"
    there.parent.mkdir(parents=True)
    there.write_bytes(b"")
    path = class_path([android_projects.jar, *library()])
    options = ANDROID_9, f"-Dandroid.os.Environment.storage={storage}"
    with Jvm(path, "com.example.assets.ScenariosKt", *options) as process:
        seen = process.ask("permit", home=str(android_projects.home(tmp_path)))
    assert seen["asked"] == [WRITE]
    needs = "To save images, allow this app to write to the phone's storage."
    assert seen["refused"] == ["generate", "save", f"{needs}\n{REMARK}"]
    assert seen["granted"] == ["generate", "share", f"Saved in Pictures/Stable Diffusion\n{REMARK}"]
    assert seen["path"] == str(there.parent / "seed-7 (1).png")
    assert seen["gallery"] == [f"PNG {WIDTH * 8}x{HEIGHT * 8}", None]
    assert seen["shared"] == ["android.intent.action.CHOOSER"]


def spoiled(resources: Path, folder: Path, level: int) -> Path:
    """Return resources whose expected image has another level."""
    from PIL import Image

    folder.mkdir()
    (folder / "expected.json").write_bytes((resources / "expected.json").read_bytes())
    Image.new("RGB", (WIDTH * 8, HEIGHT * 8), (level, level, level)).save(folder / "expected.png")
    return folder

"""The folder of golden pictures: what is refused, and how new ones take the old ones' place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from msd.bundle import open_bundle
from msd.errors import BadGoldens, OutputExists, OutputUnwritable
from msd.measure.regress import goldens as store
from msd.measure.regress import regression
from msd.measure.regress.suite import SuitePicture
from tests import stand_in
from tests.regressions import ENTRIES, SUITE, pipeline


@pytest.fixture
def folder(bundle_folder: Path, tmp_path: Path) -> Path:
    """The goldens of `SUITE`."""
    assert regression.update(SUITE, pipeline(bundle_folder), tmp_path / "goldens") == {
        "fox": "new",
        "owl": "new",
    }
    return tmp_path / "goldens"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_goldens_that_are_not_there(bundle_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadGoldens, match=r"has no goldens \(goldens.json is missing\); .*--update"):
        regression.guard(SUITE, pipeline(bundle_folder), tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 3}, "their steps is 2 and the suite's is 3"),
        ({"scheduler": None}, "their scheduler is euler and the suite's is None"),
        ({"pictures": ENTRIES[:1]}, "they are of fox, owl and the suite's of fox"),
        (
            {"pictures": (replace(ENTRIES[0], seed=4), ENTRIES[1])},
            "the seed of fox is 3 there and 4 in the suite",
        ),
        (
            {"pictures": (ENTRIES[0], replace(ENTRIES[1], prompt="an ox"))},
            "the prompt of owl is 'an owl' there and 'an ox' in the suite",
        ),
    ],
)
def test_goldens_of_another_suite(
    change: dict[str, Any], message: str, bundle_folder: Path, folder: Path
) -> None:
    other = replace(SUITE, drawing=replace(SUITE.drawing, **change))
    with pytest.raises(BadGoldens, match=f"has the goldens of another suite: {message}; .*--update"):
        regression.guard(other, pipeline(bundle_folder), folder).regress()
    assert regression.update(other, pipeline(bundle_folder), folder)
    assert not regression.guard(other, pipeline(bundle_folder), folder).regress().result.broken


def test_goldens_whose_two_descriptions_of_the_images_differ(bundle_folder: Path, folder: Path) -> None:
    """As after a conflict of two branches in goldens.json."""
    path = folder / "goldens.json"
    listed = json.loads(path.read_text())
    del listed["drawing"]["pictures"][1]
    path.write_text(json.dumps(listed))
    with pytest.raises(BadGoldens, match=r"they are of fox and the suite's of fox, owl; .*--update"):
        regression.guard(SUITE, pipeline(bundle_folder), folder)


def resized(path: Path) -> None:
    with Image.open(path) as image:
        image.resize((24, 16)).save(path)


def repainted(path: Path) -> None:
    with Image.open(path) as image:
        pixels = np.asarray(image).copy()
    pixels[3, 5, 1] ^= 1
    Image.fromarray(pixels).save(path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, r"fox\.png is missing, though goldens\.json lists it; restore it, or .*--update"),
        (cut, r"fox\.png is damaged \(.*\); restore it, or .*--update"),
        (lambda path: path.write_text("version https://git-lfs"), r"fox\.png is damaged"),
        (resized, r"fox\.png is 24×16 and not 48×32; restore it"),
        (repainted, r"fox\.png is not the image that goldens\.json describes; restore it"),
    ],
)
def test_a_damaged_picture(
    damage: Callable[[Path], Any], message: str, bundle_folder: Path, folder: Path
) -> None:
    damage(folder / "fox.png")
    with pytest.raises(BadGoldens, match=message):
        regression.guard(SUITE, pipeline(bundle_folder), folder).regress()
    changes = regression.update(SUITE, pipeline(bundle_folder), folder)
    assert changes == {"fox": "new", "owl": "unchanged"}
    assert not regression.guard(SUITE, pipeline(bundle_folder), folder).regress().result.broken


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_refused_or_harmless(folder: Path, data: st.DataObject) -> None:
    path, goldens = folder / "fox.png", store.load(folder)
    whole = path.read_bytes()
    wanted = store.read_picture(folder, "fox", goldens)
    broken = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        broken[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(broken[: data.draw(st.integers(0, len(whole)))]))
    try:
        with suppress(BadGoldens):
            assert np.array_equal(store.read_picture(folder, "fox", goldens), wanted)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"goldens\.json is not JSON: .*; restore it, or .*--update"),
        ("{}", r"goldens\.json is not a list of goldens: goldens\.json lacks 'suite'"),
        ('{"format": 99}', r"has format 99 and this msd reads up to 1; a newer msd is needed"),
    ],
)
def test_a_damaged_list(text: str, message: str, bundle_folder: Path, folder: Path) -> None:
    (folder / "goldens.json").write_text(text)
    with pytest.raises(BadGoldens, match=message):
        regression.guard(SUITE, pipeline(bundle_folder), folder).regress()
    assert regression.update(SUITE, pipeline(bundle_folder), folder) == {"fox": "new", "owl": "new"}


def test_a_bundle_of_another_size(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_in, "HEIGHT", 8)
    monkeypatch.setattr(stand_in, "WIDTH", 10)
    stand_in.write_bundle(tmp_path / "other")
    message = r"goldens has images of 48×32 pixels, and .*other generates 80×64; convert for that size, or .*"
    with pytest.raises(BadGoldens, match=message):
        regression.guard(SUITE, pipeline(tmp_path / "other"), folder).regress()


def test_update_says_what_changed(bundle_folder: Path, folder: Path) -> None:
    seeded = replace(ENTRIES[0], seed=9), SuitePicture("yak", "a yak")
    other = replace(SUITE, drawing=replace(SUITE.drawing, pictures=seeded))
    changes = regression.update(other, pipeline(bundle_folder), folder)
    assert list(changes) == ["fox", "yak", "owl"]
    assert changes["fox"].startswith("changed: ")
    assert changes["fox"].endswith(" dB against the old one")
    assert (changes["yak"], changes["owl"]) == ("new", "gone")
    assert sorted(files(folder)) == ["fox.png", "goldens.json", "yak.png"]
    goldens = store.load(folder)
    assert goldens.origin.model == open_bundle(bundle_folder).model_hash
    assert (goldens.suite, goldens.thresholds) == (other.drawing.digest, SUITE.thresholds)


@pytest.mark.parametrize("name", ["notes.txt", "holiday.png"])
def test_update_keeps_what_is_not_its_own(name: str, bundle_folder: Path, folder: Path) -> None:
    (folder / name).write_text("mine")
    before = files(folder)
    with pytest.raises(OutputExists, match=f"has {name}, which is not a golden; --update would remove it"):
        regression.update(SUITE, pipeline(bundle_folder), folder)
    assert files(folder) == before


def test_update_does_not_take_a_folder_of_pictures_for_goldens(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "holiday.png").write_text("mine")
    with pytest.raises(OutputExists, match=r"has holiday\.png"):
        regression.update(SUITE, pipeline(bundle_folder), tmp_path)
    with pytest.raises(OutputExists, match="is a file; goldens are a folder"):
        regression.update(SUITE, pipeline(bundle_folder), tmp_path / "holiday.png")


class Killed(BaseException):
    """What ends a run in the middle, as Ctrl-C does."""


def test_an_interrupted_drawing_leaves_the_old_goldens(bundle_folder: Path, folder: Path) -> None:
    before = files(folder)

    def on_step(done: int, total: int, seconds: float) -> None:
        if done == total:
            raise Killed

    with pytest.raises(Killed):
        regression.update(SUITE, pipeline(bundle_folder), folder, on_step)
    assert files(folder) == before


@pytest.mark.parametrize("ends", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_goldens_that_are_not_listed_yet_are_not_there(
    ends: Any, bundle_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(SUITE, drawing=replace(SUITE.drawing, steps=3))
    before = files(folder)

    def fails(old: Path, new: Path) -> None:
        raise ends

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises((KeyboardInterrupt, OutputUnwritable)):
        regression.update(other, pipeline(bundle_folder), folder)
    assert files(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["goldens"]


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_an_interrupted_move_is_completed(
    moment: int, bundle_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(SUITE, drawing=replace(SUITE.drawing, steps=3))
    moves, move = [0], os.replace

    def fails(old: Path, new: Path) -> None:
        moves.append(moves[-1] + (new.parent == folder))
        if moves[-1] == moment and moves[-2] != moment:
            raise KeyboardInterrupt
        move(old, new)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(KeyboardInterrupt):
        regression.update(other, pipeline(bundle_folder), folder)
    assert not regression.guard(other, pipeline(bundle_folder), folder).regress().result.broken
    assert sorted(files(folder)) == ["fox.png", "goldens.json", "owl.png"]


def test_a_picture_that_cannot_be_written_leaves_the_old_goldens(
    bundle_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(folder)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(OutputUnwritable, match="no space left to write"):
        regression.update(SUITE, pipeline(bundle_folder), folder)
    assert files(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["goldens"]

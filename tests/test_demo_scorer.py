import itertools
import random
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
from PIL import Image, ImageFilter

from msd.models.demo import score
from msd.models.demo.captions import BACKGROUNDS, BadCaption, Scene, caption, scenes
from msd.models.demo.scenes import draw
from msd.models.demo.scorer import read


@cache
def drawn():
    """Return 300 pictures with their scenes and captions."""
    rng = random.Random(11)
    chosen = rng.choices([*scenes("train"), *scenes("held-back")], k=300)
    return [(draw(scene, 1_000_000 + i), scene, caption(scene, rng)) for i, scene in enumerate(chosen)]


def resized(picture, side):
    return np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.BICUBIC))


def blurred(picture, radius=1.0):
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(radius)))


def noisy(picture, strength=8):
    noise = np.random.default_rng(int(picture.sum())).normal(0, strength, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


def test_fresh_scenes_are_read_right():
    assert np.mean([score(picture, text) for picture, _, text in drawn()]) >= 0.99


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(blurred, id="blurred"),
        pytest.param(noisy, id="noisy"),
        pytest.param(lambda picture: noisy(blurred(picture)), id="blurred and noisy"),
        pytest.param(lambda picture: resized(resized(picture, 72), 128), id="little detail"),
        pytest.param(lambda picture: np.clip(picture * 1.06 - 6.0, 0, 255).astype(np.uint8), id="contrast"),
        pytest.param(lambda picture: resized(picture, 160), id="larger"),
        pytest.param(lambda picture: resized(picture, 96), id="smaller"),
    ],
)
def test_imperfect_scenes_are_read_right(change):
    assert np.mean([score(change(picture), text) for picture, _, text in drawn()[::3]]) >= 0.99


def test_captions_of_other_scenes_score_low():
    pairs = itertools.pairwise(drawn()[:101])
    assert np.mean([score(picture, text) for (picture, _, _), (_, _, text) in pairs]) < 0.4


@pytest.mark.parametrize(
    "change",
    [
        {"count": 3},
        {"colour": "green"},
        {"kind": "heart"},
        {"position": "top"},
        {"background": "grey"},
        {"pattern": "dotted"},
    ],
)
def test_one_wrong_attribute_costs_one_sixth(change):
    scene = Scene(2, "red", "circle", "left", "blue", "striped")
    text = caption(replace(scene, **change), random.Random(0))
    assert score(draw(scene, 5), text) == pytest.approx(5 / 6)


def test_only_what_the_caption_names_counts():
    picture = draw(Scene(2, "red", "circle", "left", "blue", "striped"), 5)
    assert score(picture, "two red circles") == 1
    assert score(picture, "two red hearts on the left") == 0.75


def test_things_that_differ_have_no_kind_and_no_colour():
    left = draw(Scene(1, "red", "circle", "left", "blue", "plain"), 1)
    right = draw(Scene(1, "green", "heart", "right", "blue", "plain"), 1)
    both = np.concatenate([left[:, :64], right[:, 64:]], axis=1)
    shown = read(both)
    assert (shown["count"], shown["kind"], shown["colour"], shown["position"]) == (
        2,
        "mixed",
        "mixed",
        "middle",
    )


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_an_empty_background_shows_nothing_else(background):
    scene = next(
        s for s in scenes("train") if (s.background, s.position, s.pattern) == (background, "left", "plain")
    )
    empty = np.broadcast_to(draw(scene, 0)[60:61, 120:121], (128, 128, 3)).astype(np.uint8)
    assert read(empty) == {"background": background, "pattern": "plain", "count": 0}


def test_noise_is_not_a_scene():
    pictures = np.random.default_rng(0).integers(0, 256, (12, 128, 128, 3), dtype=np.uint8)
    assert (
        np.mean([score(picture, text) for picture, (_, _, text) in zip(pictures, drawn(), strict=False)])
        < 0.4
    )


def test_reading_returns_every_attribute():
    picture, scene, _ = drawn()[0]
    assert read(picture) == asdict(scene)


def test_a_caption_outside_the_grammar_is_refused():
    with pytest.raises(BadCaption, match="a photograph of an astronaut"):
        score(drawn()[0][0], "a photograph of an astronaut")


@pytest.mark.parametrize(
    "picture",
    [np.zeros((128, 128), np.uint8), np.zeros((128, 128, 4), np.uint8), np.zeros((128, 128, 3), np.float32)],
)
def test_other_arrays_are_refused(picture):
    with pytest.raises(ValueError, match="not uint8"):
        score(picture, "a red circle")

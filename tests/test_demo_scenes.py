import random

import numpy as np
import pytest

from msd.models.demo.captions import KINDS, POSITIONS, Scene, scenes
from msd.models.demo.scenes import FILLS, SHAPES, TONES, draw


def filled(picture, colour):
    return np.abs(picture.astype(int) - FILLS[colour]).sum(-1) < 30


def test_the_same_seed_draws_the_same_picture_and_another_moves_things():
    scene = Scene(2, "red", "star", "right", "blue", "checked")
    assert np.array_equal(draw(scene, 7), draw(scene, 7))
    assert not np.array_equal(draw(scene, 7), draw(scene, 8))


def test_a_picture_is_rgb_bytes():
    picture = draw(scenes("train")[0], 0)
    assert (picture.shape, picture.dtype) == ((128, 128, 3), np.uint8)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_things_are_where_the_scene_says_and_inside_the_picture(count, position):
    picture = draw(Scene(count, "red", "square", position, "blue", "plain"), 1)
    ys, xs = np.nonzero(filled(picture, "red"))
    wanted = {"left": (29, 64), "right": (99, 64), "top": (64, 29), "bottom": (64, 99), "middle": (64, 64)}
    assert np.hypot(xs.mean() - wanted[position][0], ys.mean() - wanted[position][1]) < 9
    assert min(xs.min(), ys.min()) >= 1
    assert max(xs.max(), ys.max()) <= 126


def test_every_kind_has_a_shape_of_its_own():
    assert SHAPES.keys() == set(KINDS)
    masks = [
        filled(draw(Scene(1, "red", kind, "middle", "blue", "plain"), 0), "red").tobytes() for kind in KINDS
    ]
    assert len(set(masks)) == len(KINDS)


@pytest.mark.parametrize(
    ("pattern", "share"), [("plain", 0), ("striped", 0.5), ("checked", 0.5), ("dotted", 0.25)]
)
def test_a_pattern_covers_its_share_of_the_background(pattern, share):
    picture = draw(Scene(1, "red", "circle", "left", "purple", pattern), 0)[:, 64:].astype(int)
    main, second = (np.abs(picture - tone).sum(-1) for tone in TONES["purple"])
    assert abs((second < main).mean() - share) < 0.03


def test_random_scenes_differ():
    rng = random.Random(0)
    pictures = {draw(rng.choice(scenes("train")), i).tobytes() for i in range(50)}
    assert len(pictures) == 50

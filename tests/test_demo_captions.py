from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import MsdError
from msd.models.demo.captions import BadCaption, Scene, caption, captions, parse, scenes

every_scene = st.deferred(lambda: st.sampled_from([*scenes("train"), *scenes("held-back")]))


@given(every_scene, st.randoms(use_true_random=False))
def test_a_full_caption_says_the_whole_scene(scene, rng):
    assert parse(caption(scene, rng)) == asdict(scene)


@given(every_scene, st.randoms(use_true_random=False))
def test_a_partial_caption_says_a_true_part(scene, rng):
    said = parse(caption(scene, rng, partial=True))
    assert said.items() <= asdict(scene).items()
    assert {"count", "colour", "kind"} <= said.keys() < asdict(scene).keys()


def test_splits_share_no_scene_and_one_in_ten_is_held_back():
    train, held_back = set(scenes("train")), set(scenes("held-back"))
    assert not train & held_back
    assert len(train | held_back) == 3 * (8 * 8 - 6) * 8 * 5 * 4
    assert 0.09 < len(held_back) / len(train | held_back) < 0.11


def test_the_split_of_a_scene_never_moves():
    assert Scene(2, "red", "circle", "left", "blue", "plain").split == "train"
    assert Scene(1, "blue", "moon", "top", "purple", "dotted").split == "held-back"


def test_captions_are_of_different_scenes_of_their_split_and_depend_on_the_seed_alone():
    texts = captions("held-back", 200, seed=3)
    said = [Scene(**parse(text)) for text in texts]
    assert len(set(said)) == 200
    assert {scene.split for scene in said} == {"held-back"}
    assert texts == captions("held-back", 200, seed=3) != captions("held-back", 200, seed=4)


def test_more_captions_than_scenes_are_refused():
    with pytest.raises(ValueError, match="larger than population"):
        captions("held-back", 30_000, seed=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Two  red circles on the left over a blue background.",
            {
                "count": 2,
                "colour": "red",
                "kind": "circle",
                "position": "left",
                "background": "blue",
                "pattern": "plain",
            },
        ),
        ("an orange star", {"count": 1, "colour": "orange", "kind": "star"}),
        (
            "a picture of three white crosses in the center",
            {"count": 3, "colour": "white", "kind": "cross", "position": "middle"},
        ),
    ],
)
def test_what_people_type_is_understood(text, said):
    assert parse(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a cat",
        "two red circle on the left",
        "a red circles",
        "four red circles",
        "a red circle on the left over a red carpet",
        "a red circle on the left over a blue background and more",
    ],
)
def test_other_text_is_refused_with_an_example(text):
    with pytest.raises(BadCaption, match="which read like") as refusal:
        parse(text)
    assert isinstance(refusal.value, MsdError)
    assert repr(text) in str(refusal.value)

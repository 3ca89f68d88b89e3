"""The training of the demo's ControlNet, a step or two of it."""

import math

import numpy as np
import pytest
import torch

from msd.models.demo.captions import scenes
from msd.models.demo.scenes import draw
from msd.run.runtime.control_file import canny
from scripts.lab import train_demo_control
from scripts.lab.demo_training import data, steering
from scripts.lab.demo_training.loop import TrainingRun


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    return train_demo_control.trained(
        train_demo_control.SMOKE, TrainingRun(folder, "cpu", math.inf, lambda line: None)
    )[0]


def test_it_begins_as_the_unet_and_changes_nothing_until_it_is_trained():
    parts = train_demo_control.frozen()
    made = steering.controlnet(parts["unet"])
    states = made.state_dict()
    shared = [name for name in parts["unet"].state_dict() if name in states]
    assert len(shared) > 100
    assert all(torch.equal(states[name], parts["unet"].state_dict()[name]) for name in shared)
    down, middle = made(
        torch.ones(1, 4, 16, 16), 500, torch.ones(1, 77, 128), torch.ones(1, 3, 128, 128), return_dict=False
    )
    assert not any(bool(residual.any()) for residual in (*down, middle))


def test_two_steps_reach_every_residual(trained):
    zero = [
        name for name, weight in trained.state_dict().items() if "controlnet_" in name and not weight.any()
    ]
    assert zero == []


def test_edges_are_those_of_from_photo():
    drawn = np.stack([draw(scene, 3) for scene in scenes("train")[:2]])
    pixels = drawn.astype(np.float32) / 127.5 - 1
    assert np.array_equal(data.edges(drawn), [canny(each[None])[0, ..., 0] > 0 for each in pixels])


def test_the_scenes_that_judge_it_are_none_that_it_saw():
    asked = train_demo_control.held_back(6)
    assert len({text for text, _ in asked}) == 6
    assert all(edges.shape == (128, 128) and set(np.unique(edges)) == {0, 1} for _, edges in asked)

"""Text encoders without their last layers: which tensors remain, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from msd.conversion.sources.clip_skip import skip_layers
from msd.conversion.sources.diffusers import open_folder
from msd.errors import BadConfig
from tests import checkpoints


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skip") / "three-layers"
    checkpoints.write(folder, checkpoints.vary(checkpoints.TINY, text_encoder={"num_hidden_layers": 3}))
    return folder


def test_the_last_layers_are_dropped(folder: Path) -> None:
    whole = open_folder(folder)
    assert skip_layers(whole, 0) is whole
    skipped = skip_layers(whole, 2)
    assert skipped.configs["text_encoder"] == replace(whole.configs["text_encoder"], layers=1)
    gone = whole.weights["text_encoder"].keys() - skipped.weights["text_encoder"].keys()
    assert {name.split(".")[2] for name in gone} == {"1", "2"}
    assert len(gone) == 32
    assert skipped.weights["unet"] is whole.weights["unet"]


@pytest.mark.parametrize("count", [3, 4])
def test_refuses_to_skip_every_layer(count: int, folder: Path) -> None:
    problem = f"{count} layers cannot be skipped: three-layers's text encoder has 3, and one must remain"
    with pytest.raises(BadConfig, match=problem):
        skip_layers(open_folder(folder), count)


def test_one_layer_is_one(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, checkpoints.TINY)
    with pytest.raises(BadConfig, match=r"^1 layer cannot be skipped: .* has 1, and one must remain"):
        skip_layers(open_folder(tmp_path), 1)


def test_refuses_other_networks(folder: Path) -> None:
    checkpoint = open_folder(folder)
    with pytest.raises(BadConfig, match="keras-cv's own text encoder always has all layers"):
        skip_layers(replace(checkpoint, networks="keras-cv"), 1)

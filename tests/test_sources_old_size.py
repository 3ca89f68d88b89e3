"""The size of images in configurations of diffusers before 0.9, against diffusers' own pipeline."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.unet import replace_unet
from msd.train.distill.networks import open_networks
from tests import checkpoints
from tests.late import diffusers


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "tiny"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


def edited(saved: Path, folder: Path, size: Any, version: str) -> Path:
    shutil.copytree(saved, folder)
    path = folder / "unet" / "config.json"
    settings = {**json.loads(path.read_text()), "sample_size": size, "_diffusers_version": version}
    path.write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("version", ["0.2.2", "0.8.1", "0.9.0.dev0", "0.9.0", "0.10.2", "0.42.0", "1.0.0"])
@pytest.mark.parametrize("size", [32, 64, 96, [32, 32]])
def test_the_size_is_that_of_diffusers_pipeline(size: Any, version: str, saved: Path, tmp_path: Path) -> None:
    folder = edited(saved, tmp_path / "old", size, version)
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    wanted = pipeline.unet.config.sample_size
    found = open_folder(folder)
    assert found.configs["unet"].size == (tuple(wanted) if isinstance(wanted, list) else (wanted, wanted))
    own = (tuple(size) if isinstance(size, list) else (size, size)) == found.configs["unet"].size
    assert found.remarks == (
        ()
        if own
        else (
            f"unet/config.json says sample_size = {size}, as diffusers {version} saved it by mistake: 64 is"
            " taken, as in diffusers",
        )
    )


def test_another_unet_s_size_too(saved: Path, tmp_path: Path) -> None:
    other = edited(saved, tmp_path / "old", 32, "0.6.0") / "unet"
    found = replace_unet(open_folder(saved), other)
    assert found.configs["unet"].size == (64, 64)
    assert found.remarks == (
        f"config.json of {other} says sample_size = 32, as diffusers 0.6.0 saved it by mistake: 64 is taken,"
        " as in diffusers",
    )


@pytest.mark.parametrize(("size", "saved_again"), [(32, 64), (None, None), ([8, 16], [8, 16])])
def test_a_student_is_of_that_size_too(size: Any, saved_again: Any, saved: Path, tmp_path: Path) -> None:
    """Its own config.json is of a newer version, by which nothing would correct it."""
    networks = open_networks(edited(saved, tmp_path / "old", size, "0.8.1"), "cpu")
    assert networks.latent_shape == (4, *(size if isinstance(size, list) else (64, 64)))
    assert networks.unet.config.sample_size == saved_again

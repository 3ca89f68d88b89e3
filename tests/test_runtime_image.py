"""PNG files: the pixels, the words about them, and nothing half-written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from msd.errors import OutputExists, OutputUnwritable
from msd.run.runtime.image import GeneratedImage, pixels, save_image

METADATA = {"prompt": 'straße 日本 "quoted"\nline', "seed": 3, "guidance": 7.5}


def picture(**changes: Any) -> GeneratedImage:
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    return GeneratedImage(values, np.zeros((1, 1, 1, 4), np.float32), METADATA | changes)


def test_pixels_are_rounded_and_cut() -> None:
    image = np.array([-2, -1, -0.999, -0.998, 0, 0.5, 1, 3], np.float32)
    assert pixels(image).tolist() == [0, 0, 0, 0, 128, 191, 255, 255]
    assert pixels(np.float32([-0.996, -0.9960])).dtype == np.uint8


def test_a_saved_picture_has_its_pixels_and_metadata(tmp_path: Path) -> None:
    save_image(picture(), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.asarray(image), picture().pixels)
        assert image.info == {"prompt": METADATA["prompt"], "seed": "3", "guidance": "7.5"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_notebook_shows_the_file(tmp_path: Path) -> None:
    save_image(picture(), tmp_path / "a.png")
    assert picture()._repr_png_() == (tmp_path / "a.png").read_bytes()


def test_refuses_to_replace_a_picture_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"mine")
    with pytest.raises(OutputExists, match=r"a\.png exists; choose another name or give --force"):
        save_image(picture(), path)
    assert path.read_bytes() == b"mine"
    save_image(picture(), path, force=True)
    with Image.open(path) as image:
        assert image.size == (7, 5)


def test_refuses_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputUnwritable, match=r"cannot write .*a\.png: .*nowhere is not a folder"):
        save_image(picture(), tmp_path / "nowhere" / "a.png")


def test_a_write_that_fails_leaves_the_old_picture(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"mine")
    unwritable = GeneratedImage(np.zeros((5, 7, 2), np.uint8)[:, :, :, None], picture().latents, {})
    with pytest.raises(TypeError):
        save_image(unwritable, path, force=True)
    assert path.read_bytes() == b"mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]

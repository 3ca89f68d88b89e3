"""A damaged file is named as changed since its conversion, by the commands and the API alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import msd
from msd.cli import msd as command
from msd.conversion.damage import changed_file
from msd.errors import BadBundle, BadModelFile

CHANGED = "unet.tflite has changed since its conversion: its SHA-256 is not the one in manifest.json; convert"


@pytest.fixture
def damaged(bundle_folder: Path, tmp_path: Path) -> Path:
    """A bundle whose U-Net has as many bytes as before, of which some have changed."""
    folder = Path(shutil.copytree(bundle_folder, tmp_path / "damaged"))
    with (folder / "unet.tflite").open("r+b") as stream:
        stream.seek(4)
        stream.write(b"xxxx")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "FOLDER", "--prompt", "a star", "-o", "OUT.png"],
        ["report", "FOLDER", "--no-run"],
        ["report", "FOLDER/unet.tflite", "--no-run"],
    ],
)
def test_commands_say_that_the_file_has_changed(words: list[str], damaged: Path, tmp_path: Path) -> None:
    places = {"FOLDER": str(damaged), "OUT": str(tmp_path / "image")}
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 1
    assert CHANGED in result.stderr


def test_the_api_says_so_too(damaged: Path) -> None:
    for call in (lambda: msd.generate(damaged, "a star"), lambda: msd.predict(damaged / "unet.tflite")):
        with pytest.raises(BadBundle, match=r"unet\.tflite has changed since its conversion"):
            call()


def test_only_what_is_named_is_blamed(damaged: Path, bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.tflite").write_bytes(b"no model")
    assert changed_file([damaged]) == damaged / "unet.tflite"
    assert changed_file([bundle_folder, damaged / "vae_decoder.tflite", tmp_path / "alone.tflite"]) is None
    with pytest.raises(BadModelFile):
        msd.predict(tmp_path / "alone.tflite")

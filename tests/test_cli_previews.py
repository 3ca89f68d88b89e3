"""`msd generate --previews`: which are written, what is refused, and that none of them costs an image."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from msd.cli import msd
from msd.files.unwritable import raises_unwritable
from msd.run.runtime import image


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(msd, ["generate", *map(str, arguments)], prog_name="msd", terminal_width=100)


def test_previews_on_the_way(bundle_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "way"
    options = ("--prompt", "fox", "--steps", "5", "--seed", "7", "--images", "2", "--preview-every", "2")
    arguments = (bundle_folder, *options, "--previews", folder, "-o", tmp_path / "a.png")
    assert run(*arguments).exit_code == 0
    names = ["7-002.png", "7-004.png", "8-002.png", "8-004.png"]
    assert sorted(path.name for path in folder.iterdir()) == names
    with Image.open(folder / "8-004.png") as preview:
        assert (preview.size, preview.info) == ((48, 32), {"seed": "8", "step": "4", "steps": "5"})
    for path in tmp_path.glob("a-*.png"):
        path.unlink()
    refused = run(*arguments)
    assert (refused.exit_code, [*tmp_path.iterdir()]) == (1, [folder])
    assert "7-002.png exists; choose another name or give --force" in refused.stderr


def test_a_preview_that_cannot_be_written_ends_no_image(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once, and the exit code is that of something that was not done."""
    folder, save = tmp_path / "way", image.save_image

    def save_image(made: image.GeneratedImage, path: Path, force: bool = False) -> None:
        if path.parent == folder:
            with raises_unwritable(path, path):
                raise OSError(errno.ENOSPC, "No space left on device")
        save(made, path, force)

    monkeypatch.setattr(image, "save_image", save_image)
    options = ("--prompt", "fox", "--steps", "4", "--images", "2", "--preview-every", "2")
    result = run(bundle_folder, *options, "--previews", folder, "-o", tmp_path / "a.png")
    said = f"error: no space left to write {folder / '0-002.png'}; free some and run again; images are made"
    assert (result.exit_code, result.stderr.count("no space left")) == (1, 1)
    assert said in result.stderr
    assert result.stderr.count("4 steps of") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0.png", "a-1.png", "way"]


def test_previews_count_the_runs_of_the_u_net(bundle_folder: Path, tmp_path: Path) -> None:
    """Heun's method runs it twice a step: three steps are five runs."""
    folder = tmp_path / "way"
    options = ("--prompt", "fox", "--steps", "3", "--scheduler", "heun", "--preview-every", "4")
    arguments = (bundle_folder, *options, "--previews", folder, "-o", tmp_path / "a.png")
    assert run(*arguments).exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["0-004.png"]
    (tmp_path / "a.png").unlink()
    refused = run(*arguments)
    assert (refused.exit_code, "0-004.png exists" in refused.stderr) == (1, True)


def test_previews_that_would_not_be_are_wrong_usage(bundle_folder: Path, tmp_path: Path) -> None:
    common = ("--prompt", "a", "--steps", "4", "-o", tmp_path / "a.png")
    alone = run(bundle_folder, *common, "--preview-every", "2")
    assert (alone.exit_code, "--preview-every does nothing without --previews" in alone.stderr) == (2, True)
    none = run(bundle_folder, *common, "--previews", tmp_path / "previews")
    assert none.exit_code == 2
    assert "--previews shows one in 5 of the 4 runs of the U-Net: none; give --preview-every" in none.stderr
    assert not [*tmp_path.iterdir()]

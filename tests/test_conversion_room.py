"""Where no recipe is named and the U-Net is too large for the device, it is int4, which is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import graph_rewrites
from msd.cli import msd as command
from msd.conversion.choices import conversion_settings
from msd.conversion.job import Job, open_job
from msd.graph.prediction.device import LARGEST_FILE, find_device
from tests import checkpoints


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("room") / "sd"
    checkpoints.write(folder, checkpoints.SD21)
    return folder


def device(folder: Path, most: str) -> str:
    path = folder / "small.toml"
    path.write_text(f"file_bytes = {most}\n", "utf-8")
    return str(path)


def opened(source: Path, folder: Path, most: str, **options: Any) -> Job:
    rules = graph_rewrites.load()
    return open_job(source, conversion_settings(rules, device=device(folder, most), **options))


def whole(source: Path) -> int:
    """The bytes of the U-Net's weights, each of which int8 stores in one."""
    return sum(
        each.size for each in open_job(source, conversion_settings([])).checkpoint.weights["unet"].values()
    )


def test_a_u_net_without_room_is_int4_and_the_rest_int8(source: Path, tmp_path: Path) -> None:
    job = opened(source, tmp_path, str(whole(source) // 2))
    assert job.settings.recipe.name == "gpu-w4-unet"
    assert job.settings.recipe.rounds("unet", ("auto",))
    (said,) = job.remarks
    assert said.startswith("the U-Net is stored as int4 (recipe gpu-w4-unet): as int8 its file would have")
    for way in ("--calibration rounds it", "--split writes two files of int8", "--recipe gpu-w8 keeps int8"):
        assert way in said


@pytest.mark.parametrize(
    ("share", "options", "recipe"),
    [
        (0.5, {"recipe": "gpu-w8"}, "gpu-w8"),
        (0.5, {"recipe": "float16"}, "float16"),
        (0.8, {"split": True}, "gpu-w8"),
        (0.3, {"split": True}, "gpu-w4-unet"),
        (0.5, {"components": ["vae_decoder"]}, "gpu-w8"),
        (2.0, {}, "gpu-w8"),
        (None, {}, "gpu-w8"),
    ],
)
def test_the_recipe_by_room(
    share: float | None, options: dict[str, Any], recipe: str, source: Path, tmp_path: Path
) -> None:
    most = '"unknown"' if share is None else str(round(whole(source) * share))
    job = opened(source, tmp_path, most, **options)
    assert job.settings.recipe.name == recipe
    assert bool(job.remarks) == (recipe == "gpu-w4-unet")


def test_phones_take_2_gib_and_desktops_what_there_is() -> None:
    assert find_device("adreno-740").file_bytes == find_device("Pixel 9").file_bytes == LARGEST_FILE
    assert find_device("desktop-vulkan").file_bytes is None


def test_the_command_says_it_on_stderr(source: Path, tmp_path: Path) -> None:
    words = ["convert", str(source), "--dry-run", "--device", device(tmp_path, "1000")]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert "warning: the U-Net is stored as int4 (recipe gpu-w4-unet)" in done.stderr
    assert "recipe gpu-w4-unet:" in done.stdout

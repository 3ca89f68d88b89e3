"""U-Nets of SSD-1B's and Segmind-Vega's kind: blocks that differ within a level, a middle of one block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import msd
from msd.bundle import open_bundle
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.errors import BadCheckpoint
from msd.graph.parity import psnr
from msd.models.config import UnevenUNetConfig
from msd.run.runtime.pipeline import Pipeline
from tests import xl_checkpoints
from tests.drawings import nchw, nhwc
from tests.late import diffusers

START = np.random.default_rng(1).standard_normal((1, 8, 12, 4), np.float32)


NO_LAYERS: dict[str, Any] = {
    "transformer_layers_per_block": [1, [2, 0], [0, 3]],
    "reverse_transformer_layers_per_block": [[0, 1, 4], [2, 0, 1], 1],
}
"""Transformers that only project, before the first upsampling, in the middle, and elsewhere."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, diffusers.StableDiffusionXLPipeline]:
    place = tmp_path_factory.mktemp("both")
    return place, written(place, xl_checkpoints.SSD)


def written(place: Path, unet: dict[str, Any]) -> diffusers.StableDiffusionXLPipeline:
    """Write a checkpoint, `folder`, and the same in one file, `one.safetensors`; return the pipeline."""
    pipeline = xl_checkpoints.write(place / "folder", single=True, unet=unet)
    xl_checkpoints.write_single_file(place / "one.safetensors", pipeline)
    return pipeline


def test_the_settings_follow_from_a_single_file(
    both: tuple[Path, diffusers.StableDiffusionXLPipeline],
) -> None:
    config = open_job(both[0] / "one.safetensors", Settings(())).checkpoint.configs["unet"]
    assert isinstance(config, UnevenUNetConfig)
    assert (config.down[1:], config.up[1:]) == (((2, 2), (3, 3)), ((2, 1, 1), (3, 1, 4)))
    assert (config.middle, config.middle_depth) == (True, None)
    assert {"mid_block.resnets.0"} < {*config.last_modules()}
    folder = open_job(both[0] / "folder", Settings(())).checkpoint.configs["unet"]
    assert (config.channels, config.heads, config.added) == (folder.channels, folder.heads, folder.added)


def test_an_image_is_diffusers_own_and_one_file_makes_the_same_bytes(
    both: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    require_one_image(*both, tmp_path)


def test_transformers_without_layers_are_diffusers(tmp_path: Path) -> None:
    require_one_image(tmp_path, written(tmp_path, NO_LAYERS), tmp_path / "out")


def require_one_image(place: Path, pipeline: diffusers.StableDiffusionXLPipeline, tmp_path: Path) -> None:
    """Require diffusers' latents of both layouts in a folder, and the same bytes of both."""
    for name in ("folder", "one.safetensors"):
        msd.convert(place / name, tmp_path / name, recipe="float32", height=16, width=24)
    settings: dict[str, Any] = {"num_inference_steps": 20, "guidance_scale": 5.0, "output_type": "latent"}
    wanted = pipeline("a red dog!", latents=nchw(START), height=16, width=24, **settings).images
    bundle, other = (open_bundle(tmp_path / name) for name in ("folder", "one.safetensors"))
    made = Pipeline(bundle).generate("a red dog!", steps=20, guidance=5.0, latents=START)
    assert psnr(nhwc(wanted), made.latents) >= 60
    for component, file in bundle.manifest.components.items():
        assert file.sha256 == other.manifest.components[component].sha256, component


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reverse_transformer_layers_per_block": None}, "has lists, so that the way up must be given"),
        ({"reverse_transformer_layers_per_block": [[3, 1], [2, 1, 1], 1]}, "a level has 3 blocks"),
        ({"reverse_transformer_layers_per_block": [[3, 1, 4], 1]}, "there are 3 levels"),
        ({"transformer_layers_per_block": [1, [2, -1], [3, 3]]}, "an integer from 0 to"),
        ({"mid_block_type": "UNetMidBlock2DSimpleCrossAttn"}, "only 'UNetMidBlock2DCrossAttn' or"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any],
    message: str,
    both: tuple[Path, diffusers.StableDiffusionXLPipeline],
    tmp_path: Path,
) -> None:
    for path in (both[0] / "folder").iterdir():
        if path.name != "unet":
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "unet").mkdir()
    for path in (both[0] / "folder/unet").iterdir():
        (tmp_path / "unet" / path.name).symlink_to(path)
    config = tmp_path / "unet/config.json"
    text = json.dumps({**json.loads(config.read_text()), **settings})
    config.unlink()
    config.write_text(text)
    with pytest.raises(BadCheckpoint, match=message):
        open_job(tmp_path, Settings(()))

"""A checkpoint that diffusers wrote, converted and drawn with, against diffusers' own pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import open_bundle
from msd.convert import Settings, convert
from msd.parity import psnr
from msd.recipe import find_recipe
from msd.runtime.pipeline import Pipeline
from tests import checkpoints

PROMPT, NEGATIVE, STEPS = "a red dog!", "blurry", 6


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoints.write(folder, checkpoints.SD21)
    return folder


@pytest.fixture(scope="module")
def start() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1, 16, 16, 4), np.float32)


@pytest.fixture(scope="module")
def reference(checkpoint: Path, start: np.ndarray) -> dict[str, np.ndarray]:
    """Diffusers' last latents, NHWC, and its picture in [0, 1], from the same first latents."""
    import torch
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    pipeline.set_progress_bar_config(disable=True)

    def draw(kind: str) -> Any:
        latents = torch.from_numpy(start.transpose(0, 3, 1, 2).copy())
        return pipeline(
            PROMPT, None, None, STEPS, negative_prompt=NEGATIVE, latents=latents, output_type=kind
        ).images

    return {"latents": draw("latent").numpy().transpose(0, 2, 3, 1), "picture": draw("np")[0]}


@pytest.mark.parametrize(("recipe", "least"), [("float32", (70, 50)), ("gpu-w8", (40, 35))])
def test_the_picture_is_diffusers(
    recipe: str,
    least: tuple[float, float],
    checkpoint: Path,
    start: np.ndarray,
    reference: dict[str, np.ndarray],
    tmp_path: Path,
) -> None:
    convert(checkpoint, tmp_path / "out", Settings(graph_rewrites.load(), find_recipe(recipe)))
    pipeline = Pipeline(open_bundle(tmp_path / "out", verify=True), float_weights=True)
    picture = pipeline.generate(PROMPT, negative_prompt=NEGATIVE, steps=STEPS, latents=start)
    assert psnr(reference["latents"], picture.latents) >= least[0]
    assert psnr(reference["picture"], picture.pixels / 255) >= least[1]

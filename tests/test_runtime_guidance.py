"""Guidance: which way a file asks for, and the numbers of each, against diffusers'."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionPipeline

from msd.bundle import ConvertedFile
from msd.runtime.guidance import EMBEDDING, Guidance
from msd.tensor_spec import TensorSpec


def unet(batch: int, *others: str) -> ConvertedFile:
    ports = [TensorSpec(name, (batch, 8), "float32", "") for name in ("latent", "context", *others)]
    return ConvertedFile("unet.tflite", "", 0, 1, tuple(ports), ())


@pytest.mark.parametrize(
    ("file", "scale", "mode", "rows"),
    [
        (unet(1), 7.5, "two passes", 2),
        (unet(2), 1.5, "batch 2", 2),
        (unet(1), 1.0, "none", 1),
        (unet(2), 0.0, "none", 1),
        (unet(1, EMBEDDING), 8.0, "embedding", 1),
        (unet(2, EMBEDDING), 0.0, "embedding", 1),
    ],
)
def test_the_file_decides(file: ConvertedFile, scale: float, mode: str, rows: int) -> None:
    guidance = Guidance.of(file, scale)
    assert (guidance.mode, guidance.rows) == (mode, rows)
    assert guidance.prompts("dogs", "cats") == ["cats", "dogs"][-rows:]


@pytest.mark.parametrize("width", [256, 6, 21])
@pytest.mark.parametrize("scale", [0.0, 1.0, 7.5, 13.25])
def test_the_embedding_is_diffusers(scale: float, width: int) -> None:
    """Sines of float32 angles up to 12000: a rounding of the angle is a thousandth."""
    ours = Guidance("embedding", scale).embedding(width)
    weight = torch.tensor([scale - 1], dtype=torch.float32)
    made = StableDiffusionPipeline.get_guidance_scale_embedding(SimpleNamespace(), weight, width)
    assert (ours.shape, ours.dtype) == ((width,), np.float32)
    np.testing.assert_allclose(ours, made[0].numpy(), rtol=0, atol=2e-3)


def test_two_outputs_become_one() -> None:
    outputs = np.float32([[[1, 5]], [[3, 4]]])
    assert Guidance("batch 2", 2.5).combine(outputs).tolist() == [[[6.0, 2.5]]]
    assert Guidance("none", 0.5).combine(outputs[:1]).tolist() == [[[1, 5]]]

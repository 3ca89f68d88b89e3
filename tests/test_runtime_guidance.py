"""Guidance: which way a file asks for, and the numbers of each, against diffusers'."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from msd.bundle import open_bundle
from msd.models.families.calls import sinusoids
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.numbers import Numbers
from tests.app_bundles import write_bundle
from tests.late import diffusers

GUIDED = {"guidance_embedding": 8}


@pytest.mark.parametrize(
    ("batch", "embeddings", "scale", "mode", "rows"),
    [
        (1, {}, 7.5, "two passes", 2),
        (2, {}, 1.5, "batch 2", 2),
        (1, {}, 1.0, "none", 1),
        (2, {}, 0.0, "none", 1),
        (1, GUIDED, 8.0, "embedding", 1),
        (2, GUIDED, 0.0, "embedding", 1),
    ],
)
def test_the_file_decides(
    batch: int, embeddings: dict[str, int], scale: float, mode: str, rows: int, tmp_path: Path
) -> None:
    bundle = open_bundle(write_bundle(tmp_path / "bundle", batch, embeddings))
    guidance = Guidance.of(bundle, scale)
    assert (guidance.mode, guidance.rows) == (mode, rows)
    assert guidance.prompts("dogs", "cats") == ["cats", "dogs"][-rows:]


@pytest.mark.parametrize("width", [256, 6, 21])
@pytest.mark.parametrize("scale", [0.0, 1.0, 7.5, 13.25])
def test_the_embedding_is_diffusers(scale: float, width: int) -> None:
    """Sines of float32 angles up to 12000: a rounding of the angle is a thousandth."""
    numbers = Numbers(0.0, Guidance("embedding", scale).number, 8, 8)
    ours = numbers.input(sinusoids("guidance", cosine_first=False, frequency_shift=1.0), width)
    weight = torch.tensor([scale - 1], dtype=torch.float32)
    made = diffusers.StableDiffusionPipeline.get_guidance_scale_embedding(SimpleNamespace(), weight, width)
    assert (ours.shape, ours.dtype) == ((width,), np.float32)
    np.testing.assert_allclose(ours, made[0].numpy(), rtol=0, atol=2e-3)


def test_two_outputs_become_one() -> None:
    outputs = np.float32([[[1, 5]], [[3, 4]]])
    assert Guidance("batch 2", 2.5).combine(outputs).tolist() == [[[6.0, 2.5]]]
    assert Guidance("none", 0.5).combine(outputs[:1]).tolist() == [[[1, 5]]]

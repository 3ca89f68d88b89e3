"""The demo's colours need some steps, and fewer are remarked on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from msd.bundle import file_facts
from msd.cli.generate import generate
from msd.models.demo import CHECKPOINT, score
from msd.models.demo.least_steps import LEAST_STEPS, UNET_SHA256, XL_UNET_SHA256
from scripts.lab.demo_xl_checkpoint import TRAINED

LEAST = LEAST_STEPS[UNET_SHA256]
CAPTION = "two red circles on the left over a striped blue background"


@pytest.mark.parametrize(("folder", "sha256"), [(CHECKPOINT, UNET_SHA256), (TRAINED, XL_UNET_SHA256)])
def test_each_is_known_by_its_unet(folder: Path, sha256: str) -> None:
    assert file_facts(folder / "unet/diffusion_pytorch_model.safetensors").sha256 == sha256


@pytest.mark.parametrize(("steps", "warnings"), [(LEAST, 0), (LEAST - 1, 1)])
def test_fewer_steps_are_remarked_on(steps: int, warnings: int, demo_int8: Path, tmp_path: Path) -> None:
    words = ["-p", CAPTION, "--steps", str(steps), "-o", str(tmp_path / "a.png")]
    result = CliRunner().invoke(generate, [str(demo_int8), *words])
    assert result.exit_code == 0, result.output
    assert result.stderr.count(f"with fewer than {LEAST} steps the demo may give other") == warnings
    if not warnings:
        assert score(np.array(Image.open(tmp_path / "a.png")), CAPTION) == 1


def test_another_model_is_not(bundle_folder: Path, tmp_path: Path) -> None:
    words = ["-p", "fox", "--steps", "1", "-o", str(tmp_path / "a.png")]
    assert "demo" not in CliRunner().invoke(generate, [str(bundle_folder), *words]).stderr

"""Models that read an image beside the prompt, in commands that generate images by prompts alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import msd
from msd.cli import msd as umbrella
from msd.measure.report.float16_audit import draw
from tests import checkpoints
from tests.checkpoints import TINY, vary

CALIBRATION = " repaints or edits an image, and prompts have none: give --calibration a folder of inputs\n"
SUITE = """
steps = 2
[thresholds]
psnr_least = 40.0
[[picture]]
name = "dog"
prompt = "a red dog"
"""


@dataclass(frozen=True)
class Model:
    """A checkpoint, converted, and what it does with an image."""

    checkpoint: Path
    bundle: Path
    does: str


@pytest.fixture(
    scope="module",
    params=[(9, "repaints a part of an image"), (8, "edits an image")],
    ids=["inpainting", "InstructPix2Pix"],
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    channels, does = request.param
    folder = tmp_path_factory.mktemp("reads")
    checkpoints.write(folder / "sd", vary(TINY, unet={"in_channels": channels}))
    if does == "edits an image":
        index = folder / "sd" / "model_index.json"
        named = index.read_text().replace("DiffusionPipeline", "DiffusionInstructPix2PixPipeline")
        index.write_text(named)
    msd.convert(folder / "sd", folder / "out", recipe="float32")
    (folder / "prompts.txt").write_text("a red dog\n")
    (folder / "suite.toml").write_text(SUITE)
    return Model(folder / "sd", folder / "out", does)


def refused(*command: Any) -> str:
    done = CliRunner().invoke(umbrella, [*map(str, command)])
    assert done.exit_code == 1, done.output
    return done.stderr


@pytest.mark.parametrize("options", [("--prune", "15%", "--calibration", "random-words"), ()], ids=str)
def test_prompts_do_not_calibrate_a_conversion(
    model: Model, options: tuple[str, ...], tmp_path: Path
) -> None:
    """Which is said before anything is converted, where it was after the whole unpruned model."""
    given = options or ("--calibration", model.checkpoint.parent / "prompts.txt")
    said = refused("convert", model.checkpoint, "-o", tmp_path / "out", *given)
    assert said.endswith(f"error: the model in sd{CALIBRATION}")
    assert [*tmp_path.iterdir()] == []


def test_prompts_do_not_measure_blocks(model: Model, tmp_path: Path) -> None:
    words = ("--calibration", "random-words")
    blocks = refused("blocks", model.bundle, "--reference", model.bundle, *words)
    assert blocks.endswith(f"error: the model in {model.bundle}{CALIBRATION}")
    target = ("--candidate", "gpu-w8", "--target-db", 30, "-o", tmp_path / "mixed.toml")
    assert refused("sensitivity", model.checkpoint, *target, *words).endswith(
        f"error: the model in sd{CALIBRATION}"
    )


def test_a_folder_of_inputs_calibrates(model: Model, tmp_path: Path) -> None:
    random, ports = np.random.default_rng(3), msd.open_bundle(model.bundle).component("unet").inputs
    (tmp_path / "inputs" / "unet").mkdir(parents=True)
    given = {port.name: random.standard_normal(port.shape, np.float32) for port in ports}
    np.savez(tmp_path / "inputs" / "unet" / "0.npz", **given)
    options: dict[str, Any] = {"components": ["unet"], "calibration": tmp_path / "inputs"}
    made = msd.convert(model.checkpoint, tmp_path / "out", recipe="gpu-w8", prune="10%", **options)
    pruning = made.manifest.ledger["unet"].pruning
    assert pruning is not None
    assert pruning.removed > 0


def test_a_suite_has_prompts_alone(model: Model, tmp_path: Path) -> None:
    suite = model.checkpoint.parent / "suite.toml"
    wanted = (
        f"error: the model in {model.bundle} {model.does}, and the images of a suite are of prompts alone\n"
    )
    for options in (("--update",), ()):
        assert refused("regress", suite, model.bundle, "--goldens", tmp_path / "goldens", *options).endswith(
            wanted
        )


def test_models_are_compared_by_prompts(model: Model) -> None:
    prompts = ("--prompts", model.checkpoint.parent / "prompts.txt")
    said = refused("compare", model.bundle, model.bundle, *prompts)
    assert said.endswith(
        f"error: the model in {model.bundle} {model.does}, and models are compared by prompts alone\n"
    )
    said = refused("compare", model.checkpoint, model.bundle, *prompts)
    wanted = "repaints or edits an image, and PyTorch runs models of prompts alone\n"
    assert said.endswith(f"error: the model in {model.checkpoint} {wanted}")


def test_the_audit_of_float16_gives_it_a_scene(model: Model) -> None:
    """The numbers of a run and not random ones; a mask marks the left half."""
    drawn = draw(model.bundle)
    latents = [run["latent"] for run in drawn["unet"]]
    assert {latent.shape[-1] for latent in latents} == {9 if model.does != "edits an image" else 8}
    given = latents[-1][..., 4:]
    assert np.isfinite(given).all()
    if model.does != "edits an image":
        half = given.shape[2] // 2
        assert np.array_equal(given[:, :, :half, 0], np.ones_like(given[:, :, :half, 0]))
        assert not given[:, :, half:, 0].any()

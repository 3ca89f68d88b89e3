"""The schedule of a checkpoint is that of the pipeline of diffusers which runs it, as for repainting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli.convert import convert
from msd.conversion.sources.diffusers import open_folder
from msd.run.runtime.scheduler import bundle_scheduler, make_scheduler, name_of
from tests import checkpoints
from tests.late import diffusers

SCALED = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
PNDM, DDIM = {"_class_name": "PNDMScheduler", **SCALED}, {"_class_name": "DDIMScheduler", **SCALED}
INPAINT = "StableDiffusionInpaintPipeline"
REPAINTING = checkpoints.vary(checkpoints.TINY, unet={"in_channels": 9})
SAID = "skip_prk_steps of the checkpoint's scheduler is taken as true, as diffusers' " + INPAINT


def write(
    folder: Path, config: checkpoints.Config, scheduler: dict[str, Any], pipeline: str = INPAINT
) -> Path:
    """Write a checkpoint of that pipeline with this scheduler_config.json."""
    checkpoints.write(folder, config)
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(scheduler))
    index = json.loads((folder / "model_index.json").read_text())
    index |= {"_class_name": pipeline, "_diffusers_version": "0.42.0"}
    index |= {"scheduler": ["diffusers", scheduler["_class_name"]]}
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def converted(source: Path, *options: str) -> Result:
    arguments = [str(source), "-o", str(source.parent / "out"), "--recipe", "float32", "--force", *options]
    done = CliRunner().invoke(convert, arguments)
    assert done.exit_code == 0, done.output
    return done


def theirs(source: Path, pipeline: str) -> dict[str, Any]:
    """Return what diffusers' pipeline makes of the scheduler's configuration."""
    parts = {"safety_checker": None, "feature_extractor": None, "image_encoder": None}
    return dict(getattr(diffusers, pipeline).from_pretrained(source, **parts).scheduler.config)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("skip", [{}, {"skip_prk_steps": False}, {"skip_prk_steps": None}])
@pytest.mark.parametrize(
    ("config", "index", "runs"),
    [
        (REPAINTING, INPAINT, INPAINT),
        (REPAINTING, "StableDiffusionPipeline", INPAINT),
        (checkpoints.TINY, INPAINT, INPAINT),
        (checkpoints.TINY, "StableDiffusionPipeline", "StableDiffusionPipeline"),
    ],
)
def test_pndm_takes_the_steps_of_the_pipeline(
    config: checkpoints.Config, index: str, runs: str, skip: dict[str, Any], tmp_path: Path
) -> None:
    source = write(tmp_path / "sd", config, PNDM | skip, index)
    done, corrected = converted(source), theirs(source, runs)
    ours = bundle_scheduler(open_bundle(tmp_path / "out"))
    assert ours == make_scheduler(corrected, insisted={})
    replaced = runs == INPAINT and skip != {"skip_prk_steps": None}
    assert (len(ours.table(6).steps), done.stderr.count(SAID)) == ((7, 1) if replaced else (15, 0))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("change", [{}, {"clip_sample": True}, {"clip_sample": False}, {"steps_offset": 0}])
def test_what_repaints_lets_latents_be_clipped(change: dict[str, Any], tmp_path: Path) -> None:
    source = write(tmp_path / "sd", REPAINTING, DDIM | change)
    assert SAID not in converted(source).stderr
    corrected = theirs(source, INPAINT)
    assert bundle_scheduler(open_bundle(tmp_path / "out")) == make_scheduler(corrected, insisted={})


def test_a_u_net_that_repaints_brings_its_schedule(tmp_path: Path) -> None:
    """And a scheduler that is chosen keeps what the choice says of it."""
    source = write(tmp_path / "sd", checkpoints.TINY, PNDM, "StableDiffusionPipeline")
    unet = write(tmp_path / "other", REPAINTING, PNDM) / "unet"
    said = converted(source, "--unet", str(unet)).stderr
    assert (said.count(SAID), len(bundle_scheduler(open_bundle(tmp_path / "out")).table(6).steps)) == (1, 7)
    converted(source, "--unet", str(unet), "--scheduler", "pndm:skip_prk_steps=false")
    assert len(bundle_scheduler(open_bundle(tmp_path / "out")).table(6).steps) == 15


def test_another_scheduler_keeps_the_setting_for_later(tmp_path: Path) -> None:
    """Diffusers' pipeline replaces it too, so that a PNDM made of it has no such steps."""
    source = write(tmp_path / "sd", checkpoints.TINY, DDIM | {"skip_prk_steps": False})
    found = open_folder(source)
    assert (found.scheduler["skip_prk_steps"], found.remarks) == (True, ())
    assert name_of(found.scheduler) == "ddim"
    assert theirs(source, INPAINT)["skip_prk_steps"] is True

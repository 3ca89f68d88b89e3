"""Few-step models are told by what their files are called, and get the schedules that they were made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import msd
from msd.bundle import ImageDefaults
from msd.conversion.few_steps import KINDS, few_steps_told
from msd.conversion.job import Job, open_job
from msd.conversion.settings import Settings
from msd.conversion.sources.compvis.xl import SCHEDULER
from msd.run.runtime.scheduler import make_scheduler
from tests import checkpoints, loras, xl_checkpoints
from tests.late import diffusers

NAMES: dict[str, tuple[str, int, float] | None] = {
    "sdxl_lightning_4step": ("lightning", 4, 1),
    "sdxlLightning_8step": ("lightning", 8, 1),
    "dreamshaperXL_lightningDPMSDE": ("lightning", 4, 1),
    "Hyper-SDXL-8steps-CFG-lora": ("hyper", 8, 5),
    "Hyper-SDXL-2steps-lora": ("hyper", 2, 1),
    "dmd2_sdxl_4step_lora_fp16": ("dmd2", 4, 1),
    "anythingXL_DMD2": ("dmd2", 4, 1),
    "lcm-lora-sdxl": ("lcm", 4, 1),
    "sd_xl_turbo_1.0_fp16": ("turbo", 4, 1),
    "HyperRealistic_v3": None,
    "turbovisionxl": None,
    "ponyDiffusionV6XL": None,
    "noobaiXL_vPred10": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_tells(name: str) -> None:
    found = few_steps_told(name, {})
    assert (found and (found.name, found.steps, found.guidance)) == NAMES[name]


def test_the_title_in_the_metadata_comes_before_the_name() -> None:
    found = few_steps_told("sdxl_lightning_4step", {"modelspec.title": "SDXL Turbo"})
    assert found is not None
    assert found.name == "turbo"


TRAILING = {"timestep_spacing": "trailing"}
THEIRS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "lightning": ("EulerDiscreteScheduler", TRAILING, {"num_inference_steps": 4}),
    "hyper": ("DDIMScheduler", TRAILING, {"num_inference_steps": 4}),
    "dmd2": ("LCMScheduler", {}, {"timesteps": [999, 749, 499, 249]}),
    "turbo": ("EulerAncestralDiscreteScheduler", TRAILING, {"num_inference_steps": 4}),
    "lcm": ("LCMScheduler", {}, {"num_inference_steps": 4}),
}
"""The schedulers of the model cards, and how they are asked for timesteps."""


def opened(path: Path, **settings: Any) -> Job:
    return open_job(path, Settings(rules=(), **settings))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("single")
    pipeline = xl_checkpoints.write(folder / "folder", single=True)
    return xl_checkpoints.write_single_file(folder / "model.safetensors", pipeline)


@pytest.mark.parametrize("name", THEIRS)
def test_the_steps_are_those_of_the_model_card(name: str, single: Path) -> None:
    job = opened(single, scheduler=name)
    kind, settings, asked = THEIRS[name]
    theirs = getattr(diffusers, kind).from_config({**SCHEDULER, "prediction_type": "epsilon", **settings})
    theirs.set_timesteps(**asked)
    ours = make_scheduler(job.checkpoint.scheduler).table(job.images.steps)
    assert [step.timestep for step in ours.steps] == [float(t) for t in theirs.timesteps]
    assert job.images == ImageDefaults(4, 1.0)
    assert not job.remarks


def test_dmd2_steps_as_diffusers_does(single: Path) -> None:
    job = opened(single, scheduler="dmd2")
    theirs = diffusers.LCMScheduler.from_config({**SCHEDULER, "prediction_type": "epsilon"})
    theirs.set_timesteps(timesteps=[999, 749, 499, 249])
    latent, output = np.random.default_rng(0).normal(size=(2, 1, 4, 4, 4)).astype(np.float32)
    step = make_scheduler(job.checkpoint.scheduler).table(4).steps[3]
    wanted = None
    for t in theirs.timesteps:
        wanted = theirs.step(torch.from_numpy(output), t, torch.from_numpy(latent), return_dict=False)[0]
    found, _ = step.apply(latent, output, None, None)
    assert wanted is not None
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


def named(single: Path, folder: Path, name: str) -> Path:
    path = folder / f"{name}.safetensors"
    path.symlink_to(single)
    return path


def test_a_single_file_s_name_decides_and_is_said(single: Path, tmp_path: Path) -> None:
    job = opened(named(single, tmp_path, "sdxl_lightning_8step"))
    assert job.checkpoint.scheduler["_class_name"] == "EulerDiscreteScheduler"
    assert job.checkpoint.scheduler["timestep_spacing"] == "trailing"
    assert job.images == ImageDefaults(8, 1.0)
    assert "is SDXL-Lightning by its name" in job.remarks[0]
    assert "8 steps and guidance 1; --scheduler takes another" in job.remarks[0]


def test_a_scheduler_that_is_asked_for_comes_first(single: Path, tmp_path: Path) -> None:
    job = opened(named(single, tmp_path, "sdxl_lightning_8step"), scheduler="euler")
    assert job.checkpoint.scheduler["timestep_spacing"] == "leading"
    assert job.images == ImageDefaults()
    assert not job.remarks


def test_a_name_without_a_kind_changes_nothing(single: Path) -> None:
    job = opened(single)
    assert (job.images, job.remarks) == (ImageDefaults(), ())
    assert job.checkpoint.scheduler["timestep_spacing"] == "leading"


def test_one_step_is_another_scheduler_or_prediction(single: Path, tmp_path: Path) -> None:
    hyper = opened(single, scheduler="hyper", steps=1)
    assert hyper.checkpoint.scheduler["_class_name"] == "TCDScheduler"
    assert hyper.checkpoint.scheduler["eta"] == 1
    lightning = opened(named(single, tmp_path, "sdxl_lightning_1step"))
    assert lightning.checkpoint.scheduler["prediction_type"] == "sample"
    assert make_scheduler(lightning.checkpoint.scheduler).table(1).steps


@pytest.mark.parametrize("inside", [False, True])
def test_a_lora_s_name_says_what_it_asks_for(inside: bool, tmp_path: Path) -> None:
    modules = checkpoints.write(tmp_path / "sd", checkpoints.SD15)
    place = tmp_path / "Hyper-SD15-2steps-lora"
    if inside:
        place.mkdir()
    path = place / "pytorch_lora_weights.safetensors" if inside else place.with_suffix(".safetensors")
    loras.save(path, loras.kohya(loras.draw(modules, [("unet", "conv_in")])))
    job = opened(tmp_path / "sd", lora=[(path, 1.0)])
    assert job.remarks[0] == (
        "Hyper-SD15-2steps-lora is Hyper-SD by its name, and was made for --scheduler hyper --steps 2;"
        " without these the scheduler stays ddim"
    )
    asked = opened(tmp_path / "sd", lora=[(path, 1.0)], scheduler="hyper", steps=2)
    assert not asked.remarks
    assert asked.images == ImageDefaults(2, 1.0)


def test_a_schedule_s_name_is_written_into_the_folder(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "sd", checkpoints.SD15)
    bundle = msd.convert(tmp_path / "sd", tmp_path / "out", scheduler="dmd2", components=["vae_decoder"])
    assert bundle.manifest.scheduler["original_inference_steps"] == 4
    assert bundle.manifest.images == ImageDefaults(4, 1.0)


def test_every_kind_has_a_scheduler_that_is_known() -> None:
    assert {*KINDS} == {*THEIRS}

"""The scheduler and the defaults of images that a conversion writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import graph_rewrites
from msd.bundle import ImageDefaults
from msd.cli.convert import convert
from msd.compress.calibration.generated_inputs import Calibration
from msd.conversion.job import open_job
from msd.conversion.schedule import image_defaults, known_settings, scheduler_config
from msd.conversion.settings import Settings
from msd.errors import BadConfig
from msd.models.demo import CHECKPOINT
from msd.run.runtime.scheduler import SCHEDULERS, make_scheduler
from msd.run.runtime.tcd import Tcd

SD15 = {
    "_class_name": "PNDMScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "set_alpha_to_one": False,
    "steps_offset": 1,
}
TRAILING = {"timestep_spacing": "trailing"}


@pytest.mark.parametrize(
    ("choice", "added"),
    [
        (None, {}),
        ("lcm", {"_class_name": "LCMScheduler"}),
        ("tcd:eta=1", {"_class_name": "TCDScheduler", "eta": 1.0}),
        ("ddim:timestep_spacing=trailing", {"_class_name": "DDIMScheduler", **TRAILING}),
        (
            "euler:timestep_spacing=trailing,use_karras_sigmas=true,sigma_min=0.1",
            {
                "_class_name": "EulerDiscreteScheduler",
                "use_karras_sigmas": True,
                "sigma_min": 0.1,
                **TRAILING,
            },
        ),
        (
            "lcm:original_inference_steps=100",
            {"_class_name": "LCMScheduler", "original_inference_steps": 100},
        ),
        (
            "ddim:rescale_betas_zero_snr=true",
            {"_class_name": "DDIMScheduler", "rescale_betas_zero_snr": True},
        ),
    ],
)
def test_a_choice_is_added_to_the_checkpoint_s_configuration(
    choice: str | None, added: dict[str, Any]
) -> None:
    assert scheduler_config(SD15, choice) == SD15 | added


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_setting_that_is_offered_is_read(name: str) -> None:
    """With a value of its type, which is another than the default."""
    texts = {bool: "true", int: "1", float: "0.5", str: "trailing"}
    words = {
        "solver_type": "heun", "algorithm_type": "sde-dpmsolver++", "final_sigmas_type": "sigma_min",
        "variance_type": "fixed_large", "interpolation_type": "log_linear", "timestep_type": "continuous",
    }  # fmt: skip
    words |= {"solver_type": "bh1"} if name == "unipc" else {}
    words |= {"solver_type": "logrho", "algorithm_type": "deis"} if name == "deis" else {}
    for setting, kind in known_settings(name).items():
        if setting == "predict_x0":
            continue
        chosen = scheduler_config(SD15, f"{name}:{setting}={words.get(setting, texts[kind])}")
        made = make_scheduler(chosen)
        assert getattr(made, setting, made.diffusion.rescale_betas_zero_snr) == chosen[setting]


def test_a_choice_may_have_a_scale_and_settings() -> None:
    assert scheduler_config(SD15, "dpm+++lu:solver_order=3") == SD15 | {
        "_class_name": "DPMSolverMultistepScheduler",
        "use_karras_sigmas": False,
        "use_exponential_sigmas": False,
        "use_beta_sigmas": False,
        "use_lu_lambdas": True,
        "solver_order": 3,
    }


def test_a_choice_makes_the_scheduler_that_diffusers_makes_of_the_configuration() -> None:
    import diffusers

    theirs = diffusers.DDIMScheduler.from_config(SD15, **TRAILING)
    ours = make_scheduler(scheduler_config(SD15, "ddim:timestep_spacing=trailing"))
    theirs.set_timesteps(4)
    assert [step.timestep for step in ours.table(4).steps] == theirs.timesteps.tolist()
    assert make_scheduler(scheduler_config(SD15, "tcd:eta=0.5")) == Tcd.from_config(SD15 | {"eta": 0.5})


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ("huen", "no scheduler is called 'huen'; there are ddim, ddpm, deis, dpm\\+\\+, dpm"),
        ("tcd:et=1", "the scheduler tcd has no setting 'et=1'; write NAME=VALUE with one of original_infer"),
        ("lcm+karras", "the scheduler lcm has no karras sigmas"),
        ("dpm++-2s:timestep_spacing=trailing", "the scheduler dpm\\+\\+-2s has no setting"),
        ("unipc:solver_p=heun", "the scheduler unipc has no setting 'solver_p=heun'"),
        ("tcd:eta", "the scheduler tcd has no setting 'eta'; write NAME=VALUE"),
        ("ddim:clip_sample=true", "the scheduler ddim has no setting 'clip_sample=true'"),
        ("lcm:keeps_all_steps=true", "the scheduler lcm has no setting 'keeps_all_steps=true'"),
        ("tcd:eta=x", "eta of --scheduler is 'x'; a number was expected"),
        ("tcd:eta=2", "eta 2 should be from 0 to 1"),
        ("lcm:original_inference_steps=1.5", "is '1.5'; a whole number was expected"),
        ("euler:use_karras_sigmas=yes", "use_karras_sigmas of --scheduler is 'yes'; true or false was"),
        ("euler:timestep_spacing=late", "timestep_spacing 'late' is not known; known are leading, trailing"),
    ],
)
def test_refuses_a_choice_that_is_wrong(choice: str, sentence: str) -> None:
    with pytest.raises(BadConfig, match=sentence):
        scheduler_config(SD15, choice)


@pytest.mark.parametrize(
    ("kind", "trained"),
    [
        ("EDMEulerScheduler", "EDM"),
        ("EDMDPMSolverMultistepScheduler", "EDM"),
        ("FlowMatchEulerDiscreteScheduler", "flow matching"),
        ("CMStochasticIterativeScheduler", "a consistency model"),
    ],
)
def test_the_noise_of_another_training_is_not_replaced(kind: str, trained: str) -> None:
    with pytest.raises(
        BadConfig, match=f"scheduler is {kind}: its U-Net was trained with the noise of {trained}"
    ):
        scheduler_config({"_class_name": kind}, "euler")
    assert scheduler_config({**SD15, "_class_name": "SASolverScheduler"}, "euler")["_class_name"]


@pytest.mark.parametrize(
    ("config", "takes_guidance", "steps", "guidance"),
    [
        (SD15, False, 20, 7.5),
        ({"_class_name": "LCMScheduler"}, False, 4, 1.0),
        ({"_class_name": "LCMScheduler"}, True, 4, 8.5),
        ({"_class_name": "TCDScheduler"}, False, 4, 1.0),
        ({"_class_name": "EulerDiscreteScheduler", **TRAILING}, False, 4, 1.0),
        ({"_class_name": "EulerDiscreteScheduler"}, False, 20, 7.5),
        (
            {"_class_name": "EulerDiscreteScheduler", "prediction_type": "v_prediction", **TRAILING},
            False,
            20,
            7.5,
        ),
        ({"_class_name": "EulerAncestralDiscreteScheduler", **TRAILING}, False, 4, 1.0),
        ({"_class_name": "EulerAncestralDiscreteScheduler"}, False, 20, 7.5),
        ({"_class_name": "DDIMScheduler", **TRAILING}, False, 20, 7.5),
        ({}, False, 20, 7.5),
    ],
)
def test_a_distilled_model_is_known_by_its_scheduler(
    config: dict[str, Any], takes_guidance: bool, steps: int, guidance: float
) -> None:
    assert image_defaults(config, takes_guidance) == ImageDefaults(steps, guidance)


def test_a_job_has_the_chosen_scheduler_and_completes_its_calibration() -> None:
    rules = graph_rewrites.load()
    job = open_job(CHECKPOINT, Settings(rules, scheduler="lcm", calibration=Calibration()))
    assert (job.checkpoint.scheduler["_class_name"], job.images) == ("LCMScheduler", ImageDefaults(4, 1.0))
    assert str(job.settings.calibration) == "4 captions of the demo, 4 of 4 steps, guidance 1, seed 0"
    own = Settings(rules, scheduler="tcd", steps=2, guidance=0.5, calibration=Calibration(steps=9))
    job = open_job(CHECKPOINT, own)
    assert job.images == ImageDefaults(2, 0.5)
    assert str(job.settings.calibration) == "4 captions of the demo, 4 of 9 steps, guidance 0.5, seed 0"
    assert open_job(CHECKPOINT, Settings(rules)).images == ImageDefaults()
    with pytest.raises(BadConfig, match="60 steps are impossible: this model was distilled for up to 50"):
        open_job(CHECKPOINT, Settings(rules, scheduler="lcm", steps=60))


def test_the_command_writes_another_schedule_beside_the_same_networks(
    demo_int8: Path, tmp_path: Path
) -> None:
    import shutil

    out = tmp_path / "out"
    shutil.copytree(demo_int8, out)
    before = json.loads((out / "manifest.json").read_text())
    run = CliRunner().invoke(convert, ["-o", str(out), "--scheduler", "tcd:eta=1", "--steps", "1"])
    assert run.exit_code == 0, run.output
    assert "images take 1 step and guidance 1 by default" in run.stdout
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["images"] == {"steps": 1, "guidance": 1.0}
    assert (manifest["scheduler"]["_class_name"], manifest["scheduler"]["eta"]) == ("TCDScheduler", 1.0)
    assert json.loads((out / "scheduler" / "scheduler_config.json").read_text()) == manifest["scheduler"]
    assert manifest["components"] == before["components"]
    back = CliRunner().invoke(convert, ["-o", str(out)])
    assert "warning: images had the scheduler tcd, 1 step and guidance 1; without" in back.stderr
    assert "Nothing to convert: every network is up to date." in back.stdout
    refused = CliRunner().invoke(convert, ["-o", str(out), "--scheduler", "huen"])
    assert refused.exit_code == 2
    assert "Error: no scheduler is called 'huen'" in refused.stderr

"""Our DDIM table against diffusers' DDIMScheduler, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from msd.errors import BadConfig
from msd.run.runtime.ddim import Ddim
from msd.run.runtime.scheduler import SCHEDULERS, ignored_settings, make_scheduler, open_scheduler
from tests.schedulers import KINDS, diffusers_class, worst_difference

SD21 = {
    "_class_name": "PNDMScheduler",
    "_diffusers_version": "0.8.0",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "clip_sample": False,
    "num_train_timesteps": 1000,
    "prediction_type": "v_prediction",
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
}
CONFIGS = st.fixed_dictionaries(
    {
        "beta_schedule": st.sampled_from(["linear", "scaled_linear", "squaredcos_cap_v2"]),
        "prediction_type": st.sampled_from(["epsilon", "v_prediction", "sample"]),
        "timestep_spacing": st.sampled_from(["leading", "trailing", "linspace"]),
        "num_train_timesteps": st.sampled_from([1000, 1000, 400]),
    },
    optional={
        "beta_start": st.sampled_from([0.00085, 0.0015]),
        "beta_end": st.sampled_from([0.012, 0.0195]),
        "set_alpha_to_one": st.booleans(),
        "steps_offset": st.integers(0, 2),
        "clip_sample": st.booleans(),
        "clip_sample_range": st.sampled_from([0.7, 1.0]),
    },
)


@settings(max_examples=120, derandomize=True)
@given(config=CONFIGS, steps=st.integers(1, 60))
def test_every_step_is_diffusers(config: dict[str, Any], steps: int) -> None:
    last = config["num_train_timesteps"] // steps * (steps - 1) + config.get("steps_offset", 0)
    assume(config["timestep_spacing"] != "leading" or last < config["num_train_timesteps"])
    assert worst_difference(config, steps) <= 1e-5


SHARED = {
    "beta_schedule": st.sampled_from(["linear", "scaled_linear"]),
    "prediction_type": st.sampled_from(["epsilon", "v_prediction", "sample"]),
    "timestep_spacing": st.sampled_from(["leading", "trailing", "linspace"]),
    "beta_start": st.sampled_from([0.00085, 0.0015]),
    "beta_end": st.sampled_from([0.012, 0.0195]),
    "steps_offset": st.integers(0, 1),
}
SIGMAS = {"use_karras_sigmas": st.booleans(), "final_sigmas_type": st.sampled_from(["zero", "sigma_min"])}


@settings(max_examples=120, derandomize=True)
@given(
    config=st.fixed_dictionaries(
        SHARED,
        optional=SIGMAS
        | {
            "solver_order": st.integers(1, 2),
            "solver_type": st.sampled_from(["midpoint", "heun"]),
            "lower_order_final": st.booleans(),
            "euler_at_final": st.booleans(),
        },
    ),
    steps=st.integers(2, 60),
)
def test_every_step_of_dpm_solver_is_diffusers(config: dict[str, Any], steps: int) -> None:
    stands = config.get("use_karras_sigmas") and config.get("final_sigmas_type") == "sigma_min"
    assume(not (stands and config.get("solver_type") == "heun"))  # diffusers' last step is 0 / 0 then
    assert worst_difference(config, steps, "dpm++") <= 1e-5


@settings(max_examples=120, derandomize=True)
@given(config=st.fixed_dictionaries(SHARED, optional=SIGMAS), steps=st.integers(2, 60))
def test_every_step_of_euler_is_diffusers(config: dict[str, Any], steps: int) -> None:
    assert worst_difference(config, steps, "euler") <= 1e-5


@settings(max_examples=60, derandomize=True)
@given(
    config=st.fixed_dictionaries(
        SHARED,
        optional={
            "original_inference_steps": st.sampled_from([50, 100]),
            "timestep_scaling": st.sampled_from([10.0, 0.01]),
            "clip_sample": st.booleans(),
        },
    ),
    steps=st.integers(1, 50),
)
def test_every_step_of_lcm_is_diffusers(config: dict[str, Any], steps: int) -> None:
    assert worst_difference(config, steps, "lcm") <= 1e-5


@settings(max_examples=60, derandomize=True)
@given(
    config=st.fixed_dictionaries(
        SHARED,
        optional={
            "original_inference_steps": st.sampled_from([50, 100]),
            "eta": st.floats(0, 1) | st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        },
    ),
    steps=st.integers(1, 50),
)
def test_every_step_of_tcd_is_diffusers(config: dict[str, Any], steps: int) -> None:
    assert worst_difference(config, steps, "tcd") <= 1e-5


@settings(max_examples=60, derandomize=True)
@given(
    config=st.fixed_dictionaries(
        SHARED | {"prediction_type": st.sampled_from(["epsilon", "v_prediction"])},
    ),
    steps=st.integers(2, 60),
)
def test_every_step_of_euler_ancestral_is_diffusers(config: dict[str, Any], steps: int) -> None:
    assert worst_difference(config, steps, "euler-a") <= 1e-5


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["euler", "euler-a", "ddim"])
def test_a_turbo_model_s_few_trailing_steps_are_diffusers(kind: str, steps: int) -> None:
    turbo = SD21 | {"prediction_type": "epsilon", "timestep_spacing": "trailing"}
    assert worst_difference(turbo, steps, kind) <= 1e-5


@pytest.mark.parametrize("kind", ["dpm++", "euler", "euler-a"])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
def test_zero_terminal_snr_of_the_others_is_diffusers(kind: str, spacing: str) -> None:
    changes = {"rescale_betas_zero_snr": True, "timestep_spacing": spacing}
    assert worst_difference(SD21 | changes, 20, kind) <= 1e-5


@pytest.mark.parametrize("kind", ["dpm++", "euler", "unipc"])
@pytest.mark.parametrize("scale", ["karras", "exponential", "beta"])
def test_sigmas_that_end_below_those_before_are_diffusers(scale: str, kind: str) -> None:
    """These betas leave less signal at timestep 998 than the substitute for none at 999."""
    changes = {"beta_start": 0.0015, "beta_end": 0.02, "rescale_betas_zero_snr": True}
    scheduler = make_scheduler(SD21 | changes, "euler")
    sigmas = scheduler.diffusion.sigmas()
    assert sigmas[998] > sigmas[999]
    config = SD21 | changes | {f"use_{scale}_sigmas": True}
    assert SCHEDULERS[kind].from_config(config).table(20).steps[0].timestep == 999
    assert worst_difference(config, 20, kind) <= 1e-4


def test_a_cosine_schedule_is_cut_where_its_noise_is_endless() -> None:
    changes = {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1}
    assert worst_difference(SD21 | changes, 20, "dpm++") <= 1e-5


@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize("schedule", ["linear", "scaled_linear"])
@pytest.mark.parametrize("steps", [1, 7, 20, 50])
def test_zero_terminal_snr_is_diffusers(spacing: str, schedule: str, steps: int) -> None:
    changes = {"rescale_betas_zero_snr": True, "timestep_spacing": spacing, "beta_schedule": schedule}
    assert worst_difference(SD21 | changes, steps) <= 1e-5


@pytest.mark.parametrize(("prediction", "tolerance"), [("v_prediction", 1e-4), ("sample", 5e-3)])
def test_zero_terminal_snr_where_float32_is_not_enough(prediction: str, tolerance: float) -> None:
    # Near timestep 0 the result hangs on 1 − α of about 1e-5, and torch's float32 square root is not the
    # correctly rounded one: diffusers itself differs as much from the exact schedule.
    changes = {
        "rescale_betas_zero_snr": True,
        "beta_schedule": "squaredcos_cap_v2",
        "prediction_type": prediction,
    }
    assert worst_difference(SD21 | changes | {"timestep_spacing": "trailing"}, 20) <= tolerance


def test_trained_betas_are_taken_as_they_are() -> None:
    betas = np.linspace(0.001, 0.03, 50).tolist()
    assert (
        worst_difference({"trained_betas": betas, "num_train_timesteps": 50, "clip_sample": False}, 5) <= 1e-5
    )


def test_a_step_without_clipping_is_two_numbers() -> None:
    steps = Ddim.from_config(SD21).table(20).steps
    assert [step.timestep for step in steps[:2]] == [951, 901]
    assert all(step.clip is None and step.clean == 0 for step in steps)


@pytest.mark.filterwarnings("ignore:The configuration file:FutureWarning")
@pytest.mark.parametrize("change", [{}, {"steps_offset": 0}, {"clip_sample": True}])
def test_stable_diffusion_s_corrections_are_the_pipeline_s(change: dict[str, Any]) -> None:
    from diffusers import DDIMScheduler, StableDiffusionPipeline

    config = SD21 | change
    parts = dict.fromkeys(["vae", "text_encoder", "tokenizer", "unet", "safety_checker", "feature_extractor"])
    pipeline = StableDiffusionPipeline(
        **parts, scheduler=DDIMScheduler.from_config(config), requires_safety_checker=False
    )
    corrected = dict(pipeline.scheduler.config)
    assert make_scheduler(config, "ddim") == Ddim.from_config(corrected)


def test_reads_a_checkpoint_s_file_whatever_class_wrote_it(tmp_path: Path) -> None:
    for reads, wrote in KINDS.items():
        diffusers_class(wrote).from_config(SD21).save_pretrained(tmp_path)
        scheduler = open_scheduler(tmp_path)
        assert type(scheduler) is SCHEDULERS[reads]
        assert scheduler.diffusion.prediction_type == "v_prediction"
        assert (scheduler.diffusion.beta_schedule, scheduler.diffusion.beta_end) == ("scaled_linear", 0.012)
        assert reads == "dpm++-2s" or getattr(scheduler, "steps_offset", 1) == 1
        assert isinstance(open_scheduler(tmp_path, "ddim"), Ddim)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"beta_schedule": "sigmoid"},
            "beta_schedule 'sigmoid' is not known; known are linear, scaled_linear",
        ),
        ({"prediction_type": "flow"}, "prediction_type 'flow' is not known"),
        ({"timestep_spacing": "random"}, "timestep_spacing 'random' is not known"),
        ({"_class_name": "DDIMScheduler", "thresholding": True}, "thresholding is for diffusion on pixels"),
        ({"trained_betas": 3}, "trained_betas is int, not a list"),
    ],
)
def test_refuses_what_it_cannot_do(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "scheduler_config.json").write_text(json.dumps(SD21 | change))
    with pytest.raises(BadConfig, match=rf"scheduler_config\.json.*{sentence}"):
        open_scheduler(tmp_path)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("sa", {}, "no scheduler is called 'sa'; there are ddim, ddpm, deis, dpm\\+\\+, dpm\\+\\+-2s, "),
        ("dpm++", {"algorithm_type": "sde"}, "algorithm_type 'sde' is not known; known are dpmsolver\\+\\+"),
        ("dpm++", {"solver_type": "bh3"}, "solver_type 'bh3' is not known; known are midpoint, heun"),
        ("euler", {"interpolation_type": "cubic"}, "interpolation_type 'cubic' is not known"),
        ("euler", {"timestep_type": "named"}, "timestep_type 'named' is not known"),
        ("euler+lu", {}, "the scheduler euler has no lu sigmas; it has karras, exponential, beta"),
        ("pndm+karras", {}, "the scheduler pndm has no karras sigmas"),
        ("dpm+++sigma", {}, "no scheduler is called 'dpm\\+\\+\\+sigma'"),
        (None, {"_class_name": "SASolverScheduler"}, "SASolverScheduler is not supported; --scheduler takes"),
        ("euler-a", {"timestep_spacing": "random"}, "timestep_spacing 'random' is not known"),
        ("tcd", {"eta": 1.5}, "eta 1.5 should be from 0 to 1"),
        ("euler", {"final_sigmas_type": "one"}, "final_sigmas_type 'one' is not known"),
    ],
)
def test_refuses_what_the_others_cannot_do(
    name: str | None, change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """And the file is named where it is at fault, and not for a name that nothing has."""
    (tmp_path / "scheduler_config.json").write_text(json.dumps(SD21 | change))
    file = r".*scheduler_config\.json: .*" if change else ""
    with pytest.raises(BadConfig, match=f"^{file}{sentence}"):
        open_scheduler(tmp_path, name)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("dpm+++karras", "use_karras_sigmas"),
        ("dpm+++lu", "use_lu_lambdas"),
        ("heun+exponential", "use_exponential_sigmas"),
        ("dpm2-a+beta", "use_beta_sigmas"),
    ],
)
def test_a_name_may_have_a_scale_of_sigmas(name: str, setting: str) -> None:
    plain, _, _ = name.rpartition("+")
    scaled = make_scheduler(SD21 | {"use_karras_sigmas": True}, name)
    assert scaled == make_scheduler(SD21 | {setting: True}, plain)
    assert scaled != make_scheduler(SD21, plain)


def test_settings_that_the_scheduler_does_not_read_are_named() -> None:
    told = {"use_karras_sigmas": True, "rescale_betas_zero_snr": True}
    for kind, ignored in {
        "DDIMScheduler": ("use_karras_sigmas",),
        "HeunDiscreteScheduler": ("rescale_betas_zero_snr",),
        "UniPCMultistepScheduler": (),
        "DDIMParallelScheduler": ("use_karras_sigmas",),
    }.items():
        assert ignored_settings(SD21 | told | {"_class_name": kind}) == ignored
    assert ignored_settings(SD21) == ()


def test_lcm_refuses_more_steps_than_it_was_distilled_for() -> None:
    with pytest.raises(BadConfig, match="51 steps are impossible: this model was distilled for up to 50"):
        SCHEDULERS["lcm"].from_config(SD21).table(51)
    with pytest.raises(BadConfig, match="original_inference_steps 0 should be from 1 to 1000"):
        SCHEDULERS["lcm"].from_config(SD21 | {"original_inference_steps": 0}).table(4)


@pytest.mark.parametrize("name", ["dpm++", "euler"])
def test_the_others_refuse_steps_that_start_beyond_the_last_timestep(name: str) -> None:
    config = SD21 | {"steps_offset": 900, "timestep_spacing": "leading"}
    with pytest.raises(BadConfig, match="20 steps from offset 900 pass the last timestep"):
        SCHEDULERS[name].from_config(config).table(20)


def test_refuses_a_missing_or_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"cannot read .*scheduler_config\.json"):
        open_scheduler(tmp_path)
    (tmp_path / "scheduler_config.json").write_text("{")
    with pytest.raises(BadConfig, match=r"cannot read .*scheduler_config\.json"):
        open_scheduler(tmp_path)


@pytest.mark.parametrize("steps", [0, 1001])
def test_refuses_an_impossible_number_of_steps(steps: int) -> None:
    with pytest.raises(BadConfig, match="can take 1 to 1000"):
        Ddim.from_config(SD21).table(steps)


def test_refuses_steps_that_start_beyond_the_last_timestep() -> None:
    with pytest.raises(BadConfig, match="last timestep 999"):
        Ddim.from_config(SD21).table(1000)


def test_refuses_to_predict_noise_from_nothing_but_noise() -> None:
    config = SD21 | {
        "rescale_betas_zero_snr": True, "timestep_spacing": "trailing", "prediction_type": "epsilon"
    }  # fmt: skip
    with pytest.raises(BadConfig, match="timestep 999, where all is noise"):
        Ddim.from_config(config).table(20)


@pytest.mark.parametrize("name", ["euler-a", "dpm2-a"])
@pytest.mark.parametrize("steps", [2, 4, 8, 50])
def test_ancestral_steps_from_the_cosine_schedule_s_largest_noise_are_finite(name: str, steps: int) -> None:
    """diffusers 0.42 takes the difference of two squares, equal in float32: NaN in 4 (its issue 14213)."""
    table = make_scheduler({"beta_schedule": "squaredcos_cap_v2"}, name).table(steps)
    for step in table.steps:
        assert np.isfinite([each for each in vars(step).values() if isinstance(each, float)]).all()

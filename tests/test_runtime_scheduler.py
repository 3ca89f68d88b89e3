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
from msd.runtime.scheduler import Scheduler, open_scheduler

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


def worst_difference(config: dict[str, Any], steps: int) -> float:
    """Return how far any step of ours is from diffusers', relative to the largest number in that step."""
    import torch
    from diffusers import DDIMScheduler

    theirs = DDIMScheduler.from_config(config)
    theirs.set_timesteps(steps)
    table = Scheduler.from_config(config).table(steps)
    assert [step.timestep for step in table] == theirs.timesteps.tolist()
    random = np.random.default_rng(steps)
    worst = 0.0
    for step in table:
        latent, output = random.standard_normal((2, 1, 5, 3, 4), np.float32)
        given = torch.from_numpy(output), step.timestep, torch.from_numpy(latent)
        expected = theirs.step(*given).prev_sample.numpy()
        got = step.apply(latent, output)
        assert (got.dtype, got.shape) == (np.float32, expected.shape)
        worst = max(worst, float(np.abs(got - expected).max() / max(1, np.abs(expected).max())))
    return worst


@settings(max_examples=120, deadline=None, derandomize=True)
@given(config=CONFIGS, steps=st.integers(1, 60))
def test_every_step_is_diffusers(config: dict[str, Any], steps: int) -> None:
    last = config["num_train_timesteps"] // steps * (steps - 1) + config.get("steps_offset", 0)
    assume(config["timestep_spacing"] != "leading" or last < config["num_train_timesteps"])
    assert worst_difference(config, steps) <= 1e-5


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
    steps = Scheduler.from_config(SD21).table(20)
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
    assert Scheduler.for_stable_diffusion(config) == Scheduler.from_config(corrected)


def test_reads_a_checkpoint_s_file_whatever_class_wrote_it(tmp_path: Path) -> None:
    from diffusers import EulerDiscreteScheduler, PNDMScheduler

    for theirs in (PNDMScheduler, EulerDiscreteScheduler):
        theirs.from_config(SD21).save_pretrained(tmp_path)
        scheduler = open_scheduler(tmp_path)
        assert scheduler.prediction_type == "v_prediction"
        assert (scheduler.beta_schedule, scheduler.beta_end) == ("scaled_linear", 0.012)
        assert (scheduler.clip_sample, scheduler.steps_offset) == (False, 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"beta_schedule": "sigmoid"},
            "beta_schedule 'sigmoid' is not known; known are linear, scaled_linear",
        ),
        ({"prediction_type": "flow"}, "prediction_type 'flow' is not known"),
        ({"timestep_spacing": "random"}, "timestep_spacing 'random' is not known"),
        ({"thresholding": True}, "thresholding is for diffusion on pixels"),
        ({"trained_betas": 3}, "not iterable"),
    ],
)
def test_refuses_what_it_cannot_do(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "scheduler_config.json").write_text(json.dumps(SD21 | change))
    with pytest.raises(BadConfig, match=rf"scheduler_config\.json.*{sentence}"):
        open_scheduler(tmp_path)


def test_refuses_a_missing_or_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"cannot read .*scheduler_config\.json"):
        open_scheduler(tmp_path)
    (tmp_path / "scheduler_config.json").write_text("{")
    with pytest.raises(BadConfig, match=r"cannot read .*scheduler_config\.json"):
        open_scheduler(tmp_path)


@pytest.mark.parametrize("steps", [0, 1001])
def test_refuses_an_impossible_number_of_steps(steps: int) -> None:
    with pytest.raises(BadConfig, match="can take 1 to 1000"):
        Scheduler.from_config(SD21).table(steps)


def test_refuses_steps_that_start_beyond_the_last_timestep() -> None:
    with pytest.raises(BadConfig, match="last timestep 999"):
        Scheduler.from_config(SD21).table(1000)


def test_refuses_to_predict_noise_from_nothing_but_noise() -> None:
    config = SD21 | {
        "rescale_betas_zero_snr": True, "timestep_spacing": "trailing", "prediction_type": "epsilon"
    }  # fmt: skip
    with pytest.raises(BadConfig, match="timestep 999, where all is noise"):
        Scheduler.from_config(config).table(20)

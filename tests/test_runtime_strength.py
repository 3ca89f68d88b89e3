"""Tables that begin with an image, against diffusers' img2img and inpainting pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from msd.bundle import open_bundle
from msd.errors import BadConfig
from msd.run.runtime.scheduler import SCHEDULERS, bundle_scheduler
from msd.run.runtime.step import Step, StepTable
from tests.app_bundles import write_app
from tests.schedulers import KINDS, NO_SAMPLE, worst_difference

SD = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
SD |= {"clip_sample": False, "set_alpha_to_one": False, "skip_prk_steps": True}
WHOLE_LCM = {"keeps_all_steps": True}


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("kind", KINDS)
def test_begins_where_diffusers_begins(kind: str, prediction: str, spacing: str, strength: float) -> None:
    config = SD | {"prediction_type": prediction, "timestep_spacing": spacing}
    assert worst_difference(config, 10, kind, strength) <= 1e-5


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
def test_a_whole_latent_consistency_model_keeps_all_steps(strength: float) -> None:
    config = SD | WHOLE_LCM
    assert len(SCHEDULERS["lcm"].from_config(config).table(4, strength).steps) == 4
    assert worst_difference(config, 4, "lcm", strength) <= 1e-5


@settings(max_examples=150, derandomize=True)
@given(
    kind=st.sampled_from([*KINDS]),
    config=st.fixed_dictionaries(
        {
            "prediction_type": st.sampled_from(["epsilon", "v_prediction", "sample"]),
            "timestep_spacing": st.sampled_from(["leading", "trailing", "linspace"]),
        },
        optional={
            "use_karras_sigmas": st.booleans(),
            "lower_order_final": st.booleans(),
            "final_sigmas_type": st.sampled_from(["zero", "sigma_min"]),
            "keeps_all_steps": st.booleans(),
        },
    ),
    steps=st.integers(2, 40),
    strength=st.floats(0.001, 1, exclude_min=True),
)
def test_any_strength_is_diffusers(kind: str, config: dict[str, Any], steps: int, strength: float) -> None:
    assume(int(steps * strength) >= 1)
    assume(config["prediction_type"] != "sample" or kind not in NO_SAMPLE)
    assume(kind != "unipc" or config.get("lower_order_final", True))  # diffusers' last step is no number then
    if kind == "lcm" and config.get("keeps_all_steps"):
        assume(int(50 * strength) >= steps)
    assert worst_difference(SD | config, steps, kind, strength) <= 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_strength_1_takes_all_steps(kind: str) -> None:
    scheduler = SCHEDULERS[kind].from_config(SD)
    assert scheduler.table(7, 1.0) == scheduler.table(7)


@pytest.mark.parametrize("kind", ["ddim", "dpm++", "euler", "euler-a"])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
def test_zero_terminal_snr_begins_with_noise_alone(kind: str, spacing: str) -> None:
    changes = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}
    config = SD | changes | {"timestep_spacing": spacing}
    for strength in (0.5, 1.0):
        assert worst_difference(config, 10, kind, strength) <= 1e-5


def test_runge_and_kutta_s_steps_are_left_out_part_way() -> None:
    pndm, whole = SCHEDULERS["pndm"], SD | {"skip_prk_steps": False}
    assert pndm.from_config(whole).table(10, 0.5) == pndm.from_config(SD).table(10, 0.5)


def test_noised_latents_have_the_sizes_of_the_step_that_follows() -> None:
    clean, noise = np.random.default_rng(0).standard_normal((2, 1, 3, 2, 4), np.float32)
    table = StepTable([Step(9.0, signal=0.5, sigma=2.0), Step(1.0, signal=0.75, sigma=0.25)])
    np.testing.assert_allclose(table.noised(0, clean, noise), clean / 2 + noise * 2, rtol=1e-6)
    np.testing.assert_allclose(table.noised(1, clean, noise), clean * 0.75 + noise / 4, rtol=1e-6)
    np.testing.assert_array_equal(table.noised(2, clean, noise), clean)


@pytest.mark.parametrize(
    ("config", "steps", "strength", "sentence"),
    [
        ({}, 20, 0.0, "strength 0 should be above 0 and at most 1"),
        ({}, 20, 1.01, "strength 1.01 should be above 0 and at most 1"),
        ({}, 20, -0.5, "strength -0.5 should be above 0 and at most 1"),
        ({}, 20, float("nan"), "strength nan should be above 0 and at most 1"),
        ({}, 20, 0.04, "strength 0.04 leaves no step of 20; it should be at least 0.05"),
        ({}, 1, 0.9, "strength 0.9 leaves no step of 1; it should be at least 1"),
        ({}, 3, 0.333, "strength 0.333 leaves no step of 3; it should be at least 0.334"),
        (WHOLE_LCM, 4, 1.5, "strength 1.5 should be above 0"),
        (WHOLE_LCM, 4, 0.06, "4 steps are impossible at strength 0.06, which leaves 3 of the 50 that"),
    ],
)
def test_refuses_a_strength_that_leaves_nothing_to_do(
    config: dict[str, Any], steps: int, strength: float, sentence: str
) -> None:
    for kind in ["lcm"] if config else KINDS:
        with pytest.raises(BadConfig, match=sentence):
            SCHEDULERS[kind].from_config(SD | config).table(steps, strength)


@pytest.mark.parametrize(("takes_guidance", "steps"), [(True, 4), (False, 2)])
def test_a_u_net_that_takes_the_guidance_scale_keeps_all_steps(
    takes_guidance: bool, steps: int, tmp_path: Path
) -> None:
    embeddings = {"guidance_embedding": 32} if takes_guidance else {}
    bundle = open_bundle(write_app(tmp_path / "app", "lcm", embeddings=embeddings))
    assert len(bundle_scheduler(bundle, "lcm").table(4, 0.5).steps) == steps
    assert len(bundle_scheduler(bundle, "tcd").table(4, 0.5).steps) == 2

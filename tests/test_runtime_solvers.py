"""Solvers of higher order, of two runs a step and with noise, against diffusers', step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from msd.errors import BadConfig
from msd.run.runtime.dpm_sde import shared_noise
from msd.run.runtime.scheduler import BY_CLASS, SCHEDULERS, make_scheduler
from msd.run.runtime.step import Step, step_table
from tests.schedulers import KINDS, NO_SAMPLE, diffusers_class, diffusers_scheduler, worst_difference

SD = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
SD |= {"clip_sample": False, "set_alpha_to_one": False, "skip_prk_steps": True}
NEW = ["ddpm", "deis", "dpm++", "dpm++-2s", "dpm++-sde", "dpm2", "dpm2-a", "heun", "lms", "pndm", "unipc"]
IN_FLOAT64 = ("deis", "dpm++", "dpm++-2s", "unipc")
SCALE = st.sampled_from(
    [{}, {}, *({f"use_{name}": True} for name in ("karras_sigmas", "exponential_sigmas", "beta_sigmas"))]
)
CONFIGS = st.fixed_dictionaries(
    {
        "beta_schedule": st.sampled_from(["linear", "scaled_linear", "squaredcos_cap_v2"]),
        "prediction_type": st.sampled_from(["epsilon", "v_prediction", "sample"]),
        "timestep_spacing": st.sampled_from(["leading", "trailing", "linspace"]),
        "steps_offset": st.integers(0, 1),
    },
    optional={
        "beta_start": st.sampled_from([0.00085, 0.0015]),
        "beta_end": st.sampled_from([0.012, 0.0195]),
        "set_alpha_to_one": st.booleans(),
        "final_sigmas_type": st.sampled_from(["zero", "sigma_min"]),
        "lower_order_final": st.booleans(),
        "euler_at_final": st.booleans(),
        "use_lu_lambdas": st.booleans(),
        "sigma_min": st.sampled_from([0.05, None]),
        "sigma_max": st.sampled_from([12.0, None]),
        "variance_type": st.sampled_from(["fixed_small", "fixed_small_log", "fixed_large"]),
        "disable_corrector": st.sampled_from([[], [0], [1, 3]]),
    },
)


def test_every_scheduler_has_its_class_in_diffusers() -> None:
    assert {name: kind for kind, name in BY_CLASS.items()} == KINDS
    assert {*SCHEDULERS} == {*KINDS}


@pytest.mark.parametrize("kind", NEW)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(config=CONFIGS, scale=SCALE, steps=st.integers(4, 40), strength=st.none() | st.floats(0.26, 1))
def test_every_step_is_diffusers(
    kind: str, config: dict[str, Any], scale: dict[str, Any], steps: int, strength: float | None
) -> None:
    assume(kind not in NO_SAMPLE or config["prediction_type"] != "sample")
    assume(kind != "unipc" or config.get("lower_order_final", True))  # diffusers' last step is no number then
    # The middle of a long ancestral step hangs on small differences, which diffusers has in float32.
    assume(kind != "dpm2-a" or steps >= 8)
    # A cosine schedule has sigmas up to 2e4, of which float32 differences are left in diffusers.
    assume(config["beta_schedule"] != "squaredcos_cap_v2" or kind == "ddpm")
    own = SD | config | scale
    if kind == "dpm++-2s":
        own |= {"timestep_spacing": "linspace"}
    if config["beta_schedule"] == "squaredcos_cap_v2":
        own |= {"prediction_type": "v_prediction"}
    assert worst_difference(own, steps, kind, strength, in_float64=kind in IN_FLOAT64) <= 1e-5


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("solver_type", ["midpoint", "heun", "bh1"])
@pytest.mark.parametrize("algorithm", ["dpmsolver++", "dpmsolver", "sde-dpmsolver++", "sde-dpmsolver"])
@pytest.mark.parametrize("kind", ["dpm++", "dpm++-2s", "deis", "unipc"])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_every_order_is_diffusers(
    kind: str, algorithm: str, solver_type: str, order: int, prediction: str
) -> None:
    if algorithm == "sde-dpmsolver" and (kind == "dpm++-2s" or order == 3):
        pytest.skip("diffusers has not written it")
    if (kind in ("deis", "unipc") and algorithm != "dpmsolver++") or (
        kind == "deis" and solver_type == "bh1"
    ):
        pytest.skip("it makes no difference")
    config = SD | {"solver_order": order, "solver_type": solver_type, "prediction_type": prediction}
    config |= {"algorithm_type": algorithm, "final_sigmas_type": "sigma_min", "use_flow_sigmas": False}
    for steps in (1, 2, 3, 7, 20):
        assert worst_difference(config, steps, kind, in_float64=True) <= 1e-5
    assert worst_difference(config, 20, kind, 0.6, in_float64=True) <= 1e-5


@pytest.mark.parametrize("kind", ["deis", "dpm++", "dpm++-2s", "unipc"])
@pytest.mark.parametrize("order", [2, 3])
def test_the_usual_steps_are_diffusers_in_float32(kind: str, order: int) -> None:
    assert worst_difference(SD | {"solver_order": order}, 12, kind) <= 1e-5


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
@pytest.mark.parametrize("final", [{"final_sigmas_type": "sigma_min"}])
def test_unipc_that_predicts_noise_is_diffusers(prediction: str, final: dict[str, Any]) -> None:
    config = SD | {"predict_x0": False, "prediction_type": prediction} | final
    assert worst_difference(config, 12, "unipc", in_float64=True) <= 1e-5


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize("steps", [4, 5, 20])
def test_pndm_s_runge_kutta_steps_are_diffusers(prediction: str, spacing: str, steps: int) -> None:
    changes = {"skip_prk_steps": False, "prediction_type": prediction, "timestep_spacing": spacing}
    assert worst_difference(SD | changes, steps, "pndm") <= 1e-5
    assert len(make_scheduler(SD | changes, "pndm").table(steps).steps) == steps + 9


@pytest.mark.parametrize("kind", ["unipc", "ddpm"])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
def test_zero_terminal_snr_is_diffusers(kind: str, spacing: str) -> None:
    changes = {"rescale_betas_zero_snr": True, "timestep_spacing": spacing}
    assert worst_difference(SD | changes | {"prediction_type": "v_prediction"}, 20, kind) <= 1e-5


@pytest.mark.parametrize("kind", ["deis", "dpm++-2s", "dpm++-sde", "dpm2", "dpm2-a", "heun", "lms", "pndm"])
def test_what_diffusers_class_does_not_read_changes_nothing(kind: str) -> None:
    changes = {"rescale_betas_zero_snr": True}
    assert worst_difference(SD | changes, 10, kind) <= 1e-5
    assert make_scheduler(SD | changes, kind) == make_scheduler(SD, kind)
    if kind == "dpm++-2s":
        assert make_scheduler(SD | {"timestep_spacing": "trailing"}, kind) == make_scheduler(SD, kind)


@pytest.mark.parametrize("kind", ["euler", "euler-a", "dpm++", "heun", "unipc"])
@pytest.mark.parametrize(
    "change",
    [
        {"interpolation_type": "log_linear"},
        {"timestep_type": "continuous", "prediction_type": "v_prediction"},
        {"use_exponential_sigmas": True},
        {"use_beta_sigmas": True},
        {"use_karras_sigmas": True, "sigma_min": 0.1, "sigma_max": 10.0},
        {"use_lu_lambdas": True},
    ],
)
def test_settings_of_sigmas_are_diffusers(kind: str, change: dict[str, Any]) -> None:
    for steps in (5, 20):
        assert worst_difference(SD | change, steps, kind) <= 1e-5


@pytest.mark.parametrize("strength", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_whole_trajectories_are_diffusers(kind: str, strength: float) -> None:
    """Each on its own latents, so that what is kept and saved counts."""
    assert far_apart(kind, SD, 12, strength) <= 2e-5


def far_apart(kind: str, config: dict[str, Any], steps: int, strength: float) -> float:
    """Return how far final latents are from diffusers', with outputs that depend on the latents."""
    import torch

    from tests.schedulers import Paths, stepped

    theirs, timesteps = diffusers_scheduler(config, steps, kind, strength)
    table = SCHEDULERS[kind].from_config(config).table(steps, strength)
    random = np.random.default_rng(3)
    image, noise = random.standard_normal((2, 1, 5, 3, 4), np.float32)
    ours = other = table.noised(0, image, noise)
    memory, paths = None, Paths(table)
    for i, (step, timestep) in enumerate(zip(table.steps, timesteps, strict=True)):
        added = random.standard_normal(image.shape, np.float32)
        fed = theirs.scale_model_input(torch.from_numpy(other), timestep).numpy()
        sampled = paths.sampled(i, added) if kind == "dpm++-sde" else added
        eta = {"eta": 0.3} if kind == "tcd" else {}
        other = stepped(theirs, np.sin(2 * fed), timestep, other, sampled, **eta)
        output = np.sin(2 * np.float32(step.scale) * ours)
        ours, memory = step.apply(ours, output, memory, added)
    return float(np.abs(ours - other).max() / np.abs(other).max())


@pytest.mark.parametrize("steps", [61, 103, 121, 122, 999])
@pytest.mark.parametrize("kind", KINDS)
def test_there_are_as_many_steps_as_asked(kind: str, steps: int) -> None:
    """Where diffusers' trailing timesteps are one more, the last at -1."""
    if kind in ("lcm", "tcd"):
        pytest.skip("its timesteps are those of its training")
    config = SD | {"timestep_spacing": "trailing"}
    table = make_scheduler(config, kind).table(steps).steps
    runs = {"heun": 2 * steps - 1, "dpm2": 2 * steps - 1, "dpm2-a": 2 * steps - 1, "dpm++-sde": 2 * steps - 1}
    assert len(table) == runs.get(kind, steps + (kind == "pndm"))
    assert min(step.timestep for step in table) >= 0
    if kind != "dpm++-2s":
        assert len(diffusers_timesteps(kind, config, steps)) > len(table) or steps == 999


def diffusers_timesteps(kind: str, config: dict[str, Any], steps: int) -> list[float]:
    theirs = diffusers_class(KINDS[kind]).from_config(config)
    theirs.set_timesteps(steps)
    timesteps: list[float] = theirs.timesteps.tolist()
    return timesteps


def test_a_schedule_that_is_cut_has_as_many_steps_as_asked() -> None:
    config = SD | {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1}
    assert len(make_scheduler(config | {"timestep_spacing": "trailing"}, "dpm++").table(500).steps) == 500


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_steps_has_numbers_or_a_sentence(kind: str) -> None:
    for steps in (1, 2, 3, 333, 998, 1000):
        for spacing in ("leading", "trailing", "linspace"):
            try:
                table = make_scheduler(SD | {"timestep_spacing": spacing}, kind).table(steps)
            except BadConfig:
                continue
            assert all(step.is_finite for step in table.steps)


def test_a_step_keeps_what_later_steps_read() -> None:
    steps = [Step(4.0), Step(3.0, history=(1.0,)), Step(2.0), Step(1.0, history=(0.0, 0.0, 1.0))]
    assert [step.keeps for step in step_table(steps).steps] == [1, 2, 3, 0]
    assert [step.keeps for step in step_table([Step(1.0), Step(0.0)]).steps] == [0, 0]
    with pytest.raises(BadConfig, match="step 2 of 2, at timestep 0, cannot be computed"):
        step_table([Step(1.0), Step(0.0, latent=float("nan"))])


def test_half_a_step_has_its_part_of_the_path_s_noise() -> None:
    assert shared_noise(4.0, 1.0) == pytest.approx(np.sqrt((4 - 2) / (4 - 1)))
    assert shared_noise(2.0, 2.0) == 0


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("dpm++", {"solver_order": 4}, "solver_order 4 is not supported; 1, 2 and 3 are"),
        ("dpm++", {"algorithm_type": "dpmsolver"}, "final_sigmas_type should be sigma_min"),
        ("dpm++", {"use_flow_sigmas": True}, "use_flow_sigmas is not supported"),
        (
            "dpm++",
            {"variance_type": "learned_range"},
            "variance_type learned_range is for diffusion on pixels",
        ),
        (
            "dpm++",
            {"algorithm_type": "sde-dpmsolver", "solver_order": 3, "final_sigmas_type": "sigma_min"},
            "sde-dpmsolver has no solver_order 3",
        ),
        (
            "dpm++-2s",
            {"algorithm_type": "sde-dpmsolver", "final_sigmas_type": "sigma_min"},
            "sde-dpmsolver has no single steps",
        ),
        ("deis", {"algorithm_type": "sde-dpmsolver++"}, "algorithm_type 'sde-dpmsolver\\+\\+' is not known"),
        ("dpm++", {"algorithm_type": "deis"}, "algorithm_type deis cannot end without noise, in diffusers"),
        ("dpm++-2s", {"algorithm_type": "deis"}, "algorithm_type deis cannot end without noise"),
        ("deis", {"solver_order": 0}, "solver_order 0 is not supported"),
        ("unipc", {"solver_type": "euler"}, "solver_type 'euler' is not known; known are bh1, bh2"),
        ("unipc", {"solver_p": {"a": 1}}, "solver_p, another solver as the predictor, is not supported"),
        ("unipc", {"predict_x0": False}, "final_sigmas_type should be sigma_min"),
        ("unipc", {"use_dynamic_shifting": True}, "use_dynamic_shifting is not supported"),
        ("ddpm", {"variance_type": "learned"}, "variance_type 'learned' is not known"),
        ("pndm", {"prediction_type": "sample"}, "pndm is for networks that predict epsilon or v_prediction"),
        ("heun", {"use_karras_sigmas": True, "use_beta_sigmas": True}, "are both true; one was expected"),
        ("heun", {"sigma_min": -1.0}, "sigma_min is -1; a number above 0 was expected"),
        ("lms", {"timestep_spacing": "random"}, "timestep_spacing 'random' is not known"),
    ],
)
def test_refuses_by_name(name: str, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadConfig, match=sentence):
        make_scheduler(SD | change, name)


@pytest.mark.parametrize("kind", ["dpm++", "dpm++-2s"])
def test_a_configuration_of_deis_is_dpm_solver_s_where_diffusers_takes_it(kind: str) -> None:
    config = SD | {"algorithm_type": "deis", "solver_type": "logrho"}
    with pytest.raises(ValueError, match="`final_sigmas_type` zero is not supported"):
        diffusers_scheduler(config, 4, kind, None)
    assert worst_difference(config | {"final_sigmas_type": "sigma_min"}, 12, kind) <= 1e-5


def test_pndm_needs_four_steps_for_runge_and_kutta() -> None:
    with pytest.raises(BadConfig, match="3 steps are impossible: pndm's Runge-Kutta steps need 4"):
        make_scheduler(SD | {"skip_prk_steps": False}, "pndm").table(3)
    with pytest.raises(BadConfig, match=r"^1 step is impossible: pndm's"):
        make_scheduler(SD | {"skip_prk_steps": False}, "pndm").table(1)

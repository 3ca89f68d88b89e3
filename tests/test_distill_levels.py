"""The arithmetic of distillation, against diffusers' DDIM and by its own laws."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import BadConfig
from msd.run.runtime.diffusion import Diffusion
from msd.train.distill.levels import CLEAN, Levels, require_prediction, timesteps
from tests.late import diffusers

CONFIG = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
DIFFUSION = Diffusion.from_config(CONFIG)
LEVELS = Levels.of(DIFFUSION, "cpu")
PREDICTIONS = st.sampled_from(["epsilon", "v_prediction"])
TIMES = st.integers(0, 999)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape or (2, 4, 3, 5), generator=torch.Generator().manual_seed(seed))


def at(*values: int) -> torch.Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("steps", [1, 4, 8, 20])
def test_a_step_is_that_of_diffusers(prediction: str, steps: int) -> None:
    scheduler = diffusers.DDIMScheduler(
        **CONFIG,
        prediction_type=prediction,
        timestep_spacing="trailing",
        set_alpha_to_one=True,
        clip_sample=False,
    )
    scheduler.set_timesteps(steps)
    grid = timesteps(DIFFUSION, steps)
    assert grid == [*scheduler.timesteps.tolist(), CLEAN]
    for seed, (now, after) in enumerate(pairwise(grid)):
        latents, output = normal(seed, 1, 4, 3, 5), normal(seed + 100, 1, 4, 3, 5)
        clean = LEVELS.clean(prediction, at(now), latents, output)
        noise = LEVELS.noise(prediction, at(now), latents, output)
        wanted = scheduler.step(output, now, latents).prev_sample
        assert torch.allclose(LEVELS.at(at(after), clean, noise), wanted, rtol=1e-4, atol=1e-4)


@given(prediction=PREDICTIONS, time=TIMES, seed=st.integers(0, 99))
def test_output_is_what_clean_and_noise_invert(prediction: str, time: int, seed: int) -> None:
    clean, noise = normal(seed), normal(seed + 100)
    latents = LEVELS.at(at(time, time), clean, noise)
    output = LEVELS.output(prediction, at(time, time), latents, clean)
    scale = float(1 / LEVELS.signal(at(time)) / LEVELS.sigma(at(time)))
    assert torch.allclose(LEVELS.clean(prediction, at(time, time), latents, output), clean, atol=1e-4 * scale)
    assert torch.allclose(LEVELS.noise(prediction, at(time, time), latents, output), noise, atol=1e-4 * scale)


@given(first=st.integers(40, 999), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_points_between_two_ends_lie_on_their_step(first: int, share: float, seed: int) -> None:
    last = int(share * (first - 20)) - 1
    wanted = (first + last) // 2
    clean, noise = normal(seed), normal(seed + 100)
    ends = tuple(LEVELS.at(at(time, time), clean, noise) for time in (first, last))
    times = at(first, first), at(last, last)
    found = LEVELS.between(ends, times, at(wanted, wanted))
    assert torch.allclose(found, LEVELS.at(at(wanted, wanted), clean, noise), atol=2e-3)
    assert torch.allclose(LEVELS.aim(ends, times), clean, atol=2e-2)


def test_the_aim_of_two_steps_leads_where_they_lead() -> None:
    now, middle, after = 999, 499, CLEAN
    latents = start = normal(1)
    for time, following, seed in ((now, middle, 2), (middle, after, 3)):
        output = normal(seed)
        clean = LEVELS.clean("v_prediction", at(time, time), latents, output)
        noise = LEVELS.noise("v_prediction", at(time, time), latents, output)
        latents = LEVELS.at(at(following, following), clean, noise)
    aim = LEVELS.aim((start, latents), (at(now, now), at(after, after)))
    assert torch.allclose(aim, latents, atol=1e-5)
    output = LEVELS.output("v_prediction", at(now, now), start, aim)
    clean = LEVELS.clean("v_prediction", at(now, now), start, output)
    noise = LEVELS.noise("v_prediction", at(now, now), start, output)
    assert torch.allclose(LEVELS.at(at(after, after), clean, noise), latents, atol=1e-4)


@given(steps=st.integers(1, 60))
def test_half_as_many_steps_visit_every_other_timestep(steps: int) -> None:
    pairs = zip(timesteps(DIFFUSION, 2 * steps)[::2], timesteps(DIFFUSION, steps), strict=True)
    assert max(abs(one - other) for one, other in pairs) <= (0 if steps in (1, 2, 4, 8, 10, 20, 25) else 1)


def test_networks_that_predict_clean_latents_are_refused() -> None:
    with pytest.raises(BadConfig, match="'sample'; networks that predict epsilon or v_prediction"):
        require_prediction(Diffusion.from_config({**CONFIG, "prediction_type": "sample"}))


def test_more_steps_than_timesteps_are_refused() -> None:
    with pytest.raises(BadConfig, match="1 to 1000"):
        timesteps(DIFFUSION, 1001)

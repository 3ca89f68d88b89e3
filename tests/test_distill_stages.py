"""Which stages a distillation has, and which trajectories it learns from."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from msd.errors import BadConfig
from msd.run.runtime.diffusion import Diffusion
from msd.train.distill.levels import CLEAN, Levels, timesteps
from msd.train.distill.settings import Goal, ScaleRange, Training
from msd.train.distill.stages import plan_stages
from msd.train.distill.training import least_bytes, make_optimizer, rate_at
from msd.train.distill.trajectories import Trajectories, TrajectoryPlan

FIXED, RANGE = ScaleRange(7.5, 7.5), ScaleRange(2, 14)
DIFFUSION = Diffusion.from_config({"beta_schedule": "scaled_linear"})
SHAPE = 4, 6, 10


def plan(**changes: object) -> TrajectoryPlan:
    usual = TrajectoryPlan(
        ids=torch.arange(12).reshape(4, 3),
        guidance=FIXED,
        timesteps=timesteps(DIFFUSION, 32),
        shape=SHAPE,
        count=5,
        seed=7,
    )
    return replace(usual, **changes)


def names(goal: Goal, prediction: str = "epsilon") -> list[tuple[str, str]]:
    return [(stage.name, stage.prediction) for stage in plan_stages(goal, prediction, Training(), "data")]


def test_guidance_comes_first_and_steps_are_halved_from_the_teachers() -> None:
    assert Goal(FIXED, 4).teacher_steps == Goal(FIXED).teacher_steps == 32
    assert Goal(None, 10).teacher_steps == 20
    assert Goal(None, 25).teacher_steps == 25
    assert names(Goal(FIXED)) == [("guidance", "epsilon")]
    assert names(Goal(None, 10)) == [("steps-10", "epsilon")]
    assert names(Goal(RANGE, 8)) == [(name, "epsilon") for name in ("guidance", "steps-16", "steps-8")]


def test_latent_consistency_is_one_stage_that_predicts_what_its_teacher_does() -> None:
    assert names(Goal(FIXED, 2, lcm=True)) == [("lcm", "epsilon")]
    assert names(Goal(RANGE, lcm=True), "v_prediction") == [("lcm", "v_prediction")]
    assert Goal(FIXED, 3, lcm=True).teacher_steps == Goal(FIXED).teacher_steps


@pytest.mark.parametrize(("steps", "prediction"), [(4, "epsilon"), (3, "v_prediction"), (1, "v_prediction")])
def test_students_of_the_fewest_steps_predict_v_in_every_stage(steps: int, prediction: str) -> None:
    assert {said for _, said in names(Goal(FIXED, steps))} == {prediction}
    assert {said for _, said in names(Goal(FIXED, steps), "v_prediction")} == {"v_prediction"}


def test_equal_stages_of_different_goals_have_equal_folders() -> None:
    eight, four = (plan_stages(Goal(FIXED, n), "epsilon", Training(), "data") for n in (8, 4))
    assert [stage.folder for stage in four][:3] == [stage.folder for stage in eight]
    others = plan_stages(Goal(FIXED, 8), "epsilon", Training(rate=1e-4), "data")
    assert not {stage.folder for stage in others} & {stage.folder for stage in eight}


def test_scales_and_prompts_of_trajectories() -> None:
    wide = plan(guidance=RANGE, count=200)
    scales = [wide.scale(i) for i in range(wide.count)]
    assert 2 < min(scales) < 3 < 13 < max(scales) < 14
    assert [plan().scale(i) for i in range(2)] == [7.5, 7.5]
    assert [plan().prompt(i) for i in range(5)] == [0, 1, 2, 0, 1]
    alone = plan(guidance=None)
    assert [alone.prompt(i) for i in (8, 9, 10, 19)] == [2, 3, 1, 3]
    assert alone.scale(3) == 1.0


def test_noise_depends_on_the_seed_and_the_trajectory() -> None:
    assert torch.equal(plan().noise(3), plan(count=9).noise(3))
    assert not torch.equal(plan().noise(3), plan().noise(4))
    assert not torch.equal(plan().noise(3), plan(seed=8).noise(3))
    assert plan().key != plan(seed=8).key != plan(guidance=RANGE).key
    assert plan().key == plan().key


@pytest.fixture
def trajectories(tmp_path: Path) -> Trajectories:
    """Trajectories whose latents say which they are and at which step; each part holds two."""
    chosen = plan(shape=(4, 200, 160))
    assert chosen.per_part == 2
    for number, part in enumerate(chosen.parts):
        latents = np.zeros((len(part), 33, *chosen.shape), np.float16)
        latents += np.array(part, np.float16)[:, None, None, None, None] * 100
        latents += np.arange(33, dtype=np.float16)[:, None, None, None]
        np.save(tmp_path / f"part-{number:05}.npy", latents)
    return Trajectories(chosen, tmp_path, Levels.of(DIFFUSION, "cpu"), "cpu")


@pytest.mark.parametrize("steps", [32, 8, 1])
def test_points_on_the_grid_are_those_of_their_step(trajectories: Trajectories, steps: int) -> None:
    points, step = trajectories.on_grid(torch.Generator().manual_seed(1), 40, steps)
    values = points.latents[:, 0, 0, 0]
    assert points.latents.dtype == torch.float32
    assert torch.equal(values % 100, step * (32 // steps))
    assert torch.equal(points.timesteps, torch.tensor(timesteps(DIFFUSION, steps))[step])
    prompts = torch.tensor([trajectories.plan.prompt(int(value) // 100) for value in values])
    assert torch.equal(points.ids, trajectories.plan.ids[prompts])
    assert len(set(values.tolist())) > min(steps, 5) - 1


def test_points_anywhere_lie_between_the_steps_around_them(trajectories: Trajectories) -> None:
    levels = Levels.of(DIFFUSION, "cpu")
    points = trajectories.anywhere(torch.Generator().manual_seed(2), 60)
    grid = trajectories.plan.timesteps
    for latents, time in zip(points.latents[:, 0, 0, 0], points.timesteps.tolist(), strict=True):
        before = max(i for i, each in enumerate(grid[:-1]) if each >= time)
        which = round(float(latents) // 100 * 100)
        ends = torch.tensor([which + before, which + before + 1.0]).view(2, 1, 1, 1, 1)
        times = torch.tensor([[grid[before]], [grid[before + 1]]])
        wanted = levels.between(tuple(ends), tuple(times), torch.tensor([time]))
        if time == grid[before]:
            assert float(latents) == pytest.approx(which + before, rel=1e-3)
        else:
            assert float(latents) == pytest.approx(float(wanted), rel=1e-3, abs=1e-2)
    assert CLEAN not in points.timesteps


def test_the_learning_rate_rises_and_falls() -> None:
    training = Training(updates=10, rate=1.0, warmup=4)
    rates = [rate_at(training, update) for update in range(10)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4:] == [1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert rate_at(Training(updates=3, rate=2.0, warmup=0), 0) == 2.0


def test_memory_of_weights() -> None:
    assert least_bytes(10, Training(), "no") == 200
    assert least_bytes(10, Training(), "bf16") == 180
    assert least_bytes(10, Training(optimizer="adamw8bit"), "bf16") == 120
    assert least_bytes(10, Training(lora=8), "bf16") == 60


def test_moments_in_8_bits_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(BadConfig, match="adamw8bit needs bitsandbytes, which is not installed"):
        make_optimizer(torch.nn.Linear(2, 3), Training(optimizer="adamw8bit"))

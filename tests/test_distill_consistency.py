"""Latent consistency, against diffusers' LCM scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from msd.bundle import ImageDefaults
from msd.train.distill.consistency import SOLVER_STEPS, boundary, consistency_loss, end_of, lcm_scheduler
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.objectives import encoded
from msd.train.distill.passes import Points, guided_output, output_of
from msd.train.distill.result import DistilledCheckpoint, write_lora
from msd.train.distill.settings import Goal, ScaleRange, TeacherData, Training
from msd.train.distill.student import new_student
from msd.train.distill.training import StageRun, train
from msd.train.distill.trajectories import Trajectories, TrajectoryPlan, make_trajectories
from tests.checkpoints import TINY, vary, write
from tests.late import diffusers

SMALL = vary(TINY, unet={"sample_size": [4, 6]})


@pytest.fixture
def networks(tmp_path: Path) -> Networks:
    write(tmp_path / "teacher", SMALL)
    return open_networks(tmp_path / "teacher", "cpu")


def trajectories(networks: Networks, folder: Path, scale: ScaleRange) -> Trajectories:
    data = TeacherData(folder, 6, seed=3)
    plan = TrajectoryPlan.of(networks, ["red", "nearly red", "reed"], Goal(scale, lcm=True), data)
    make_trajectories(networks, plan, folder / "made", (0, 1), lambda done, total: None)
    return Trajectories(plan, folder / "made", networks.levels, "cpu")


def points_at(networks: Networks, *timesteps: int) -> Points:
    random = torch.Generator().manual_seed(1)
    latents = torch.randn(len(timesteps), *networks.latent_shape, generator=random)
    ids = networks.token_ids(["red"] * len(timesteps))
    scales = torch.full((len(timesteps),), 3.0)
    return Points(latents=latents, timesteps=torch.tensor(timesteps), ids=ids, scales=scales)


@given(timestep=st.integers(0, 999))
def test_the_boundary_is_that_of_diffusers(timestep: int) -> None:
    skip, out = boundary(torch.tensor([timestep, 7]))
    theirs = diffusers.LCMScheduler().get_scalings_for_boundary_condition_discrete(timestep)
    assert (float(skip[0]), float(out[0])) == pytest.approx([float(each) for each in theirs], rel=1e-5)
    assert skip.shape == out.shape == (2, 1, 1, 1)


def test_what_a_student_says_is_what_diffusers_scheduler_denoises(networks: Networks) -> None:
    config = lcm_scheduler({**networks.checkpoint.scheduler, "thresholding": True}, networks.prediction)
    scheduler = diffusers.LCMScheduler.from_config(config)
    scheduler.set_timesteps(4)
    points = points_at(networks, *scheduler.timesteps.tolist())
    conditions = networks.conditions(points.ids)
    with torch.no_grad():
        ours = end_of(networks.unet, networks.levels, networks.prediction, points, conditions)
        outputs = networks.unet(points.latents, points.timesteps, conditions["context"]).sample
    for i, timestep in enumerate(scheduler.timesteps):
        step = scheduler.step(outputs[i : i + 1], timestep, points.latents[i : i + 1])
        assert torch.allclose(ours[i : i + 1], step.denoised, rtol=1e-4, atol=1e-3)
    assert scheduler.config.original_inference_steps == SOLVER_STEPS


def test_the_end_of_clean_latents_are_these(networks: Networks) -> None:
    points = points_at(networks, 0, 0)
    with torch.no_grad():
        conditions = networks.conditions(points.ids)
        said = end_of(networks.unet, networks.levels, networks.prediction, points, conditions)
    assert torch.allclose(said, points.latents, atol=1e-5)


class WithoutEnds(Trajectories):
    """Trajectories of which, as of pictures, it is not known where they lead."""

    def anywhere(self, random: Any, size: int, among: Sequence[int] | None = None) -> Points:
        return replace(super().anywhere(random, size, among), ends=None)


def test_points_of_trajectories_know_their_ends(tmp_path: Path, networks: Networks) -> None:
    source = trajectories(networks, tmp_path, ScaleRange(5, 5))
    first, step = source.on_grid(torch.Generator().manual_seed(4), 9, 1)
    assert first.timesteps.tolist() == [999] * 9
    latents, first, empty = first.latents, encoded(networks, first), networks.conditions(source.ids[-1:])
    with torch.no_grad():
        for now, after in pairwise(source.timesteps):
            at = torch.full((9,), now)
            clean, noise = guided_output(networks, first.moved(latents, at), empty)
            latents = networks.levels.at(torch.full_like(at, after), clean, noise)
    assert torch.allclose(first.ends, latents, rtol=2e-2, atol=2e-2 * float(latents.abs().max()))
    last = source.anywhere(torch.Generator().manual_seed(4), 9, [0])
    assert float((last.latents - last.ends).abs().max()) < 0.2 * float(last.ends.abs().max())
    assert step.tolist() == [0] * 9


def test_a_student_that_says_the_ends_has_no_loss(tmp_path: Path, networks: Networks) -> None:
    source = trajectories(networks, tmp_path, ScaleRange(5, 5))
    ends = iter([source.anywhere(torch.Generator().manual_seed(2), 8, range(19, 1000, 20))])

    def knows(latents: Any, timesteps: Any, context: Any, **rest: Any) -> Any:
        points = next(ends)
        skip, out = boundary(timesteps)
        clean = (points.ends - skip * latents) / out
        return (networks.levels.output(networks.prediction, timesteps, latents, clean),)

    knows.config = networks.unet.config  # type: ignore[attr-defined]
    loss = consistency_loss(networks, source, networks.prediction)
    assert float(loss(knows, torch.Generator().manual_seed(2), 8)) < 1e-3


@pytest.mark.parametrize("scale", [ScaleRange(30, 30), ScaleRange(5, 30)], ids=["one scale", "a range"])
@pytest.mark.parametrize("known", [True, False], ids=["known ends", "unknown ends"])
def test_training_lowers_the_loss_at_points_that_it_is_judged_at(
    tmp_path: Path, networks: Networks, scale: ScaleRange, known: bool
) -> None:
    from accelerate import Accelerator

    source = trajectories(networks, tmp_path, scale)
    if not known:
        source = WithoutEnds(source.plan, tmp_path / "made", networks.levels, "cpu")
    loss = consistency_loss(networks, source, networks.prediction)
    student = new_student(networks.unet, scale.is_range, Training())

    def judged() -> float:
        with torch.no_grad():
            return float(loss(student, torch.Generator().manual_seed(9), 128))

    before = judged()
    training = Training(updates=60, batch=8, rate=5e-4, warmup=5)
    run = StageRun("lcm", tmp_path / "stage", training, seed=0, save_every=1000, sample_every=0)
    train(run, student, loss, Accelerator(), lambda progress: None, lambda unet, update: None)
    assert judged() < 0.8 * before


def test_a_lora_begins_as_its_teacher_and_diffusers_loads_what_it_has_learnt(
    tmp_path: Path, networks: Networks
) -> None:
    from accelerate import Accelerator

    training = Training(updates=3, batch=2, rate=1e-2, warmup=0, lora=2)
    student = new_student(networks.unet, takes_scale=False, training=training)
    points = points_at(networks, 999, 40)
    conditions = networks.conditions(points.ids)
    with torch.no_grad():
        before = output_of(networks.unet, points, conditions)
        assert torch.allclose(output_of(student, points, conditions), before, atol=1e-5)
    loss = consistency_loss(networks, trajectories(networks, tmp_path, ScaleRange(9, 9)), networks.prediction)
    run = StageRun("lcm", tmp_path / "stage", training, seed=0, save_every=1000, sample_every=0)
    student = train(run, student, loss, Accelerator(), lambda progress: None, lambda unet, update: None)
    images = ImageDefaults(4, 1.0)
    write_lora(DistilledCheckpoint(student, {}, images, {}), tmp_path / "lora")
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "teacher", safety_checker=None)
    pipe.load_lora_weights(tmp_path / "lora")
    with torch.no_grad():
        after = output_of(student, points, conditions)
        theirs = output_of(pipe.unet, points, conditions)
    assert torch.allclose(theirs, after, atol=1e-4)
    assert (after - before).abs().max() > 1e-2


def test_points_are_those_of_the_solver(tmp_path: Path, networks: Networks) -> None:
    among = range(19, 1000, 20)
    made = trajectories(networks, tmp_path, ScaleRange(3, 3))
    points = made.anywhere(torch.Generator().manual_seed(4), 200, among)
    assert {*points.timesteps.tolist()} <= {*among}
    assert len({*points.timesteps.tolist()}) > 40

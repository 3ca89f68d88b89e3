"""The loss of a student that moves latents in a step of its images as its teacher moves them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import graph_rewrites
from msd.bundle import ImageDefaults
from msd.train.distill.blocks import NEXT, block_outputs, recovery_loss
from msd.train.distill.distill import distill
from msd.train.distill.levels import CLEAN, timesteps
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.objectives import Loss
from msd.train.distill.passes import Points, PointSource
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.train.distill.student import Student, new_student
from tests.test_distill import checkpoint, observer

__all__ = ["checkpoint"]

FINE = 8


class Numbered:
    """Points at the timesteps of 8 steps, with a prompt of their own."""

    drawn_among: list[int]

    def __init__(self, teacher: Networks) -> None:
        self._shape = teacher.latent_shape
        self.ids = teacher.token_ids(["a red star", "blue", ""])
        self.timesteps = timesteps(teacher.diffusion, FINE)

    def on_grid(self, random: Any, size: int, steps: int) -> tuple[Points, Any]:
        raise AssertionError("early steps are drawn more often")

    def anywhere(self, random: Any, size: int, among: Any = None) -> Points:
        """Return every point of `among`, in turn."""
        self.drawn_among = [*among]
        at = torch.tensor(self.drawn_among)[torch.arange(size) % len(among)]
        latents = torch.randn(size, *self._shape, generator=random)
        ids = self.ids[torch.arange(size) % 2]
        return Points(latents=latents, timesteps=at, ids=ids, scales=torch.full((size,), 3.0))


@pytest.fixture
def teacher(checkpoint: Path) -> Networks:
    return open_networks(checkpoint, "cpu")


def moved(
    teacher: Networks, unet: Any, latents: Any, ids: tuple[Any, Any], at: tuple[int, int], g: float
) -> Any:
    """Return one image's latents after DDIM's step, written out: equations 12 and 7 of arXiv 2010.02502."""
    (now, after), (prompt, empty) = at, ids
    when = torch.tensor([now])
    noise = unet(latents[None], when, teacher.conditions(prompt[None])["context"], return_dict=False)[0]
    if g != 1:
        without = unet(latents[None], when, teacher.conditions(empty[None])["context"], return_dict=False)[0]
        noise = without + g * (noise - without)
    alphas = [1.0, *teacher.diffusion.alphas().tolist()]
    a, b = alphas[now + 1], alphas[after + 1]
    clean = (latents - (1 - a) ** 0.5 * noise[0]) / a**0.5
    return b**0.5 * clean + (1 - b) ** 0.5 * noise[0]


@pytest.mark.parametrize(("steps", "guidance"), [(8, 7.5), (4, 7.5), (8, 1.0), (2, 1.0)])
def test_it_is_the_error_of_the_next_latents_and_of_the_blocks(
    teacher: Networks, steps: int, guidance: float
) -> None:
    source, whole = Numbered(teacher), Student(teacher.unet, "epsilon")
    student = new_student(teacher.unet, False, Training())
    with torch.no_grad():
        student.conv_out.bias += torch.tensor([0.01, -0.03, 0.02, 0.05])
        student.conv_in.bias += 0.01
    loss = recovery_loss(teacher, whole, source, steps, guidance)
    grid = source.timesteps[:: FINE // steps]
    assert grid[-1] == CLEAN
    with torch.no_grad():
        size = steps * (steps + 1) // 2
        found = float(loss(student, torch.Generator().manual_seed(3), size))
        points, wanted = source.anywhere(torch.Generator().manual_seed(3), size, source.drawn_among), 0.0
        for i in range(size):
            step = grid.index(int(points.timesteps[i]))
            ids, at = (points.ids[i], source.ids[-1]), (grid[step], grid[step + 1])
            after = [
                moved(teacher, unet, points.latents[i], ids, at, guidance) for unet in (student, teacher.unet)
            ]
            wanted += float((after[0] - after[1]).square().mean()) / size
        only_blocks = blocks_of(teacher, student, source, points, guidance)
    assert found == pytest.approx(NEXT * wanted + only_blocks, rel=1e-3)
    assert NEXT * wanted > 0.01 * only_blocks


def blocks_of(teacher: Networks, student: Any, source: Numbered, points: Points, guidance: float) -> float:
    """Return the mean over the blocks of their relative errors, on both passes where there is guidance."""
    twice = guidance != 1
    context = teacher.conditions(points.ids)["context"]
    if twice:
        empty = teacher.conditions(source.ids[-1:])["context"]
        context = torch.cat([empty.expand_as(context), context])
    latents, at = points.latents.repeat(1 + twice, 1, 1, 1), points.timesteps.repeat(1 + twice)
    said = []
    for unet in (student, teacher.unet):
        with block_outputs(unet) as outputs:
            unet(latents, at, context, return_dict=False)
        said.append(dict(outputs))
    errors = [((said[0][n] - said[1][n]).square().mean() / said[1][n].square().mean()) for n in said[1]]
    return float(torch.stack(errors).mean())


def test_the_whole_network_has_none(teacher: Networks) -> None:
    loss = recovery_loss(teacher, Student(teacher.unet, "epsilon"), Numbered(teacher), 8, 7.5)
    with torch.no_grad():
        assert float(loss(new_student(teacher.unet, False, Training()), torch.Generator(), 8)) < 1e-8


def test_a_student_that_predicts_v_is_read_so(teacher: Networks) -> None:
    """Of the same networks, said to predict v, the latents after a step differ in another way."""
    student = new_student(teacher.unet, False, Training())
    with torch.no_grad():
        student.conv_out.bias += 0.1
    found = {}
    for prediction in ("epsilon", "v_prediction"):
        loss = recovery_loss(teacher, Student(teacher.unet, prediction), Numbered(teacher), 8, 1.0)
        with torch.no_grad():
            found[prediction] = float(loss(student, torch.Generator().manual_seed(1), 8))
    v = replace(teacher, diffusion=replace(teacher.diffusion, prediction_type="v_prediction"))
    loss = recovery_loss(v, Student(teacher.unet, "v_prediction"), Numbered(teacher), 8, 1.0)
    with torch.no_grad():
        assert float(loss(student, torch.Generator().manual_seed(1), 8)) == found["v_prediction"]
    assert found["v_prediction"] != pytest.approx(found["epsilon"], rel=0.01)


def test_early_steps_are_drawn_more_often(teacher: Networks) -> None:
    source = Numbered(teacher)
    recovery_loss(teacher, Student(teacher.unet, "epsilon"), source, 4, 1.0).draw(torch.Generator(), 3)
    first, second, third, last, _ = source.timesteps[::2]
    assert source.drawn_among == [first] * 4 + [second] * 3 + [third] * 2 + [last]


@pytest.mark.parametrize(
    ("goal", "wanted"),
    [
        (Goal(), (32, 7.5)),
        (Goal(usual=ImageDefaults(6, 1.0)), (6, 1.0)),
        (Goal(steps=4), (4, 7.5)),
        (Goal(ScaleRange(3, 3), steps=4), (4, 1.0)),
        (Goal(ScaleRange(3, 3), steps=4, lcm=True), (4, 1.0)),
        (Goal(ScaleRange(2, 9)), (32, 1.0)),
    ],
    ids=["alone", "of few steps and no guidance", "fewer steps", "one pass", "lcm", "the scale an input"],
)
def test_a_step_is_one_of_the_students_images(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, goal: Goal, wanted: tuple[int, float]
) -> None:
    found = []

    def loss(teacher: Networks, whole: Student, source: PointSource, steps: int, guidance: float) -> Loss:
        found.append((steps, guidance))
        return recovery_loss(teacher, whole, source, steps, guidance)

    monkeypatch.setattr("msd.train.distill.distill.recovery_loss", loss)
    (tmp_path / "prompts.txt").write_text("red\nreed\n", "utf-8")
    settings = DistillationSettings(
        data=TeacherData(tmp_path / "prompts.txt", 2),
        goal=replace(goal, recover="gpu-w8"),
        state=tmp_path / "state",
        training=Training(updates=1, batch=2, rate=1e-4, warmup=0),
        rules=graph_rewrites.load(),
    )
    if goal.usual != ImageDefaults():
        usual = json.dumps({"images": asdict(goal.usual)})
        (checkpoint / "distillation.json").write_text(usual, "utf-8")
    distill(checkpoint, tmp_path / "out", settings, observer())
    assert found == [wanted]

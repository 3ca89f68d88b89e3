"""Updates a second of a recovery of the demo checkpoint, a quarter pruned, in int8: plain, and recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

import graph_rewrites
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from msd.train.distill.blocks import recovery_loss
from msd.train.distill.distill import DTYPES, start_accelerator
from msd.train.distill.fake_quantization import quantize_layers
from msd.train.distill.networks import frozen, open_networks
from msd.train.distill.objectives import Loss
from msd.train.distill.recovery import plan_recovery
from msd.train.distill.settings import (
    DistillationSettings,
    Goal,
    Precision,
    ScaleRange,
    TeacherData,
    Training,
)
from msd.train.distill.student import Student, new_student
from msd.train.distill.training import LOG, REPORT_EVERY, StageRun, train
from msd.train.distill.trajectories import Trajectories, TrajectoryPlan, make_trajectories
from scripts.lab.recovered_demo import write_recipe

GOAL = Goal(ScaleRange(7.5, 7.5))


def measure_speed(
    work: Path, training: Training, precision: Precision, trajectories: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the speed of training with and without recorded updates, and whether the students are equal.

    The student is not refitted first, which decides no speed.
    """
    settings = DistillationSettings(
        TeacherData(None), GOAL, work / "state", precision=precision, training=training
    )
    accelerator = start_accelerator(settings)
    teacher = open_networks(CHECKPOINT, str(accelerator.device))
    recovery = plan_recovery(teacher, write_recipe(work), graph_rewrites.load())
    prompts = [*dict.fromkeys(captions("train", trajectories, 1))]
    plan = TrajectoryPlan.of(teacher, prompts, GOAL, TeacherData(None, trajectories))
    with accelerator.autocast():
        make_trajectories(teacher, plan, work / "trajectories", (0, 1), lambda done, total: None)
    source = Trajectories(plan, work / "trajectories", teacher.levels, teacher.device)
    whole = frozen(new_student(teacher.unet, False, training)).to(dtype=DTYPES[precision])
    with accelerator.autocast():
        before = Student(whole, teacher.prediction)
        loss = recovery_loss(teacher, before, source, GOAL.teacher_steps, GOAL.usual.guidance)

    def case(name: str, recorded: bool) -> dict[str, Any]:
        student = recovery.narrowing.narrow(new_student(teacher.unet, False, training))
        quantize_layers(student, recovery.integers)
        seen = _trained(work / name, training, student, loss, accelerator, recorded)
        say(f"{name}, {precision}: {json.dumps(seen)}")
        return seen

    return _compared(training, precision, {"plain": case("plain", False), "recorded": case("recorded", True)})


def _trained(
    folder: Path, training: Training, student: Any, loss: Loss, accelerator: Any, recorded: bool
) -> dict[str, Any]:
    """Train a student and return the speed and what it has become."""
    run = StageRun(
        name="recover",
        folder=folder,
        training=training,
        seed=0,
        save_every=10**9,
        sample_every=0,
        cuda_graph=recorded,
    )
    student = train(run, student, loss, accelerator, lambda progress: None, lambda unet, update: None)
    return {**speed_in(folder / LOG), "weights_sha256": _hash(student)}


def _compared(training: Training, precision: Precision, cases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "training": asdict(training),
        "precision": precision,
        "cases": cases,
        "ratio": cases["recorded"]["updates_per_second"] / cases["plain"]["updates_per_second"],
        "same_weights": cases["recorded"]["weights_sha256"] == cases["plain"]["weights_sha256"],
    }


def speed_in(log: Path) -> dict[str, Any]:
    """Return what a log says of speed, without the first `REPORT_EVERY` updates, and of memory."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    first = next((line for line in lines if line["update"] >= REPORT_EVERY), lines[0])
    last = lines[-1]
    return {
        "updates_per_second": (last["update"] - first["update"]) / (last["seconds"] - first["seconds"]),
        "peak_bytes": last["peak_bytes"],
        "loss": last["loss"],
    }


def _hash(student: torch.nn.Module) -> str:
    found = sha256()
    for tensor in student.state_dict().values():
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()

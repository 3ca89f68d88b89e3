"""Updates a second and memory of each objective of `msd distill`, on a U-Net with random weights.

Weights decide neither: the checkpoint is scripts/make_random_checkpoint.py's, written first and then read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import graph_rewrites
from msd.models.demo import CHECKPOINT
from msd.train.distill.blocks import recovery_loss
from msd.train.distill.consistency import consistency_loss
from msd.train.distill.distill import DTYPES, start_accelerator
from msd.train.distill.fake_quantization import quantize_layers
from msd.train.distill.levels import CLEAN
from msd.train.distill.networks import Networks, frozen, open_networks
from msd.train.distill.objectives import Loss, guidance_loss, halving_loss
from msd.train.distill.recovery import RecoveryPlan, plan_recovery
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.train.distill.student import Student, new_student
from msd.train.distill.training import LOG, StageRun, least_bytes, train
from msd.train.distill.trajectories import Trajectories, TrajectoryPlan, make_trajectories
from scripts.lab.recovered_demo import write_recipe
from scripts.lab.training_speed import speed_in
from scripts.make_random_checkpoint import Random, read_config, write_diffusers

MODEL = "sd21-base"
GOAL = Goal(ScaleRange(7.5, 7.5), 1)
PROMPTS = "a red circle", "two blue stars", "three green hearts", "one white moon"
OBJECTIVES = "guidance", "halving", "consistency", "recovery"
LORA_RANK = 64


@dataclass(frozen=True)
class TrainingCase:
    """One training that is measured."""

    objective: str
    training: Training


def cases(processes: int, updates: int) -> list[TrainingCase]:
    """Return what is measured on so many GPUs; the batch grows with them.

    On one: each objective as it is, and as it fits a smaller GPU.
    """
    plain = Training(updates=updates, batch=8 * processes, warmup=1)
    lora = TrainingCase("consistency", replace(plain, lora=LORA_RANK))
    large = [*(TrainingCase(objective, plain) for objective in OBJECTIVES), lora]
    if processes > 1:
        return large
    less = replace(plain, batch=4, gradient_checkpointing=True)
    small = [TrainingCase(objective, less) for objective in OBJECTIVES]
    if find_spec("bitsandbytes"):
        small.append(TrainingCase("guidance", replace(less, optimizer="adamw8bit")))
    return large + small


def write_checkpoint(folder: Path) -> None:
    """Write the random checkpoint to a new folder."""
    write_diffusers(folder, read_config(MODEL), Random(0, "float16"))


@dataclass(frozen=True)
class FullSizeBench:
    """What all cases share."""

    teacher: Networks
    recovery: RecoveryPlan
    accelerator: Any
    settings: DistillationSettings
    work: Path

    def measure(self, case: TrainingCase, folder: Path) -> dict[str, Any]:
        """Train a case and return its speed, without the first updates, and its peak of memory."""
        teacher, accelerator = self.teacher, self.accelerator
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        student = new_student(teacher.unet, False, case.training)
        if case.objective == "recovery":
            student = self.recovery.narrowing.narrow(student)
            quantize_layers(student, self.recovery.integers)
        dtype = DTYPES[self.settings.precision]
        before = Student(torch.nn.Module.to(frozen(teacher.unet), dtype), "epsilon")
        loss = self._loss(before, case.objective, folder)
        run = StageRun(case.objective, folder, case.training, 0, save_every=10**9, sample_every=0)
        train(run, student, loss, accelerator, lambda progress: None, lambda unet, update: None)
        return seen_in(folder / LOG, case.training.batch) if accelerator.is_main_process else {}

    def _loss(self, before: Student, objective: str, folder: Path) -> Loss:
        """Return a case's loss on a few short trajectories of this process."""
        plan = TrajectoryPlan.of(self.teacher, PROMPTS, Goal(GOAL.guidance), TeacherData(folder, 8))
        plan = replace(plan, timesteps=[plan.timesteps[0], plan.timesteps[len(plan.timesteps) // 2], CLEAN])
        made = folder / f"trajectories-{self.accelerator.process_index}"
        with self.accelerator.autocast():
            make_trajectories(self.teacher, plan, made, (0, 1), lambda done, total: None)
        trajectories = Trajectories(plan, made, self.teacher.levels, self.teacher.device)
        if objective == "guidance":
            return guidance_loss(self.teacher, trajectories, "epsilon")
        if objective == "consistency":
            return consistency_loss(self.teacher, trajectories, "epsilon")
        if objective == "recovery":
            return recovery_loss(
                self.teacher, before, trajectories, len(plan.timesteps) - 1, GOAL.usual.guidance
            )
        return halving_loss(self.teacher, before, trajectories, 1, "v_prediction")


def seen_in(log: Path, batch: int) -> dict[str, Any]:
    """Return what the log of a training says of its speed and memory."""
    seen = speed_in(log)
    return {**seen, "points_per_second": seen["updates_per_second"] * batch}


def measure_full_size(
    checkpoint: Path | None, work: Path, updates: int, objectives: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the figures of some objectives on a checkpoint, None: the demo's. Every process calls this."""
    settings = DistillationSettings(
        TeacherData(work / "prompts.txt", 8), GOAL, work / "state", precision="bf16" if checkpoint else "no"
    )
    accelerator = start_accelerator(settings)
    teacher = open_networks(checkpoint or CHECKPOINT, str(accelerator.device))
    recovery = plan_recovery(teacher, write_recipe(work), graph_rewrites.load())
    bench = FullSizeBench(
        teacher=teacher, recovery=recovery, accelerator=accelerator, settings=settings, work=work
    )
    parameters = sum(weight.numel() for weight in teacher.unet.parameters())
    figures = []
    asked = [each for each in cases(accelerator.num_processes, updates) if each.objective in objectives]
    for number, case in enumerate(asked):
        seen = bench.measure(case, work / str(number))
        least = least_bytes(parameters, case.training, settings.precision)
        figures.append(
            {"objective": case.objective, "training": asdict(case.training), "least_bytes": least, **seen}
        )
        say(json.dumps(figures[-1]))
    return {
        "model": MODEL if checkpoint else "demo",
        "parameters": parameters,
        "latents": teacher.latent_shape,
        "precision": settings.precision,
        "recovered": recovery.summary,
        "processes": accelerator.num_processes,
        "cases": figures,
    }

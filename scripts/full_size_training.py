"""Updates a second and memory of each objective of `msd distill`, on a U-Net with random weights.

Weights decide neither, so none are read: the networks are made on the GPU, from a seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import diffusers
import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from msd.demo import CHECKPOINT
from msd.distill.distill import DTYPES, start
from msd.distill.levels import CLEAN, Levels
from msd.distill.networks import Networks, frozen
from msd.distill.objectives import Loss, guidance_loss, halving_loss
from msd.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.distill.student import Student, new_student
from msd.distill.training import LOG, StageRun, least_bytes, train
from msd.distill.trajectories import Trajectories, TrajectoryPlan, make_trajectories
from msd.runtime.diffusion import Diffusion
from msd.sources.checkpoint import SCHEDULER
from scripts.make_random_checkpoint import read_config

MODEL = "sd21-base"
GOAL = Goal(ScaleRange(7.5, 7.5), 1)
PROMPTS = "a red circle", "two blue stars", "three green hearts", "one white moon"


@dataclass(frozen=True)
class TrainingCase:
    """One training that is measured."""

    objective: str
    training: Training


def cases(processes: int, updates: int) -> list[TrainingCase]:
    """Return what is measured on so many GPUs; the batch grows with them."""
    plain = Training(updates=updates, batch=8 * processes, warmup=1)
    small = Training(updates=updates, batch=4 * processes, warmup=1, gradient_checkpointing=True)
    light = Training(
        updates=updates, batch=4 * processes, warmup=1, gradient_checkpointing=True, optimizer="adamw8bit"
    )
    both = [TrainingCase("guidance", plain), TrainingCase("halving", plain)]
    return (
        [*both, TrainingCase("guidance", small), TrainingCase("guidance", light)] if processes == 1 else both
    )


def measure_full_size(work: Path, updates: int, smoke: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the figures of every case; `smoke`: with the demo's U-Net. Every process calls this."""
    settings = DistillationSettings(
        TeacherData(work / "prompts.txt", 8), GOAL, work / "state", precision="no" if smoke else "bf16"
    )
    accelerator = start(settings)
    config = _demo_config() if smoke else read_config(MODEL)
    teacher = random_networks(config, str(accelerator.device))
    parameters = sum(weight.numel() for weight in teacher.unet.parameters())
    figures = []
    for number, case in enumerate(cases(accelerator.num_processes, updates)):
        seen = _measure(teacher, case, work / str(number), accelerator, settings.precision)
        least = least_bytes(parameters, case.training, settings.precision)
        figures.append(
            {"objective": case.objective, "training": asdict(case.training), "least_bytes": least, **seen}
        )
        say(json.dumps(figures[-1]))
    return {
        "model": "demo" if smoke else MODEL,
        "parameters": parameters,
        "latents": teacher.latent_shape,
        "precision": settings.precision,
        "processes": accelerator.num_processes,
        "cases": figures,
    }


def _measure(
    teacher: Networks, case: TrainingCase, work: Path, accelerator: Any, precision: Any
) -> dict[str, Any]:
    """Train a case and return its speed, without the first update, and its peak of memory."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    student = new_student(teacher.unet, False, case.training)
    before = Student(frozen(teacher.unet).to(DTYPES[precision]), "epsilon")
    loss = _loss(teacher, before, case.objective, work, accelerator)
    run = StageRun(case.objective, work, case.training, 0, save_every=10**9, sample_every=0)
    train(run, student, loss, accelerator, lambda progress: None, lambda unet, update: None)
    if not accelerator.is_main_process:
        return {}
    lines = [json.loads(line) for line in (work / LOG).read_text("utf-8").splitlines()]
    first, last = lines[0], lines[-1]
    speed = (last["update"] - first["update"]) / (last["seconds"] - first["seconds"])
    return {
        "updates_per_second": speed,
        "points_per_second": speed * case.training.batch,
        "peak_bytes": last["peak_bytes"],
        "loss": last["loss"],
    }


def _loss(teacher: Networks, before: Student, objective: str, work: Path, accelerator: Any) -> Loss:
    """Return a case's loss on a few short trajectories of this process."""
    plan = TrajectoryPlan.of(teacher, PROMPTS, Goal(GOAL.guidance), TeacherData(work, trajectories=8))
    plan = replace(plan, timesteps=[plan.timesteps[0], plan.timesteps[len(plan.timesteps) // 2], CLEAN])
    made = work / f"trajectories-{accelerator.process_index}"
    with accelerator.autocast():
        make_trajectories(teacher, plan, made, (0, 1), lambda done, total: None)
    trajectories = Trajectories(plan, made, teacher.levels, teacher.device)
    if objective == "guidance":
        return guidance_loss(teacher, trajectories, "epsilon")
    return halving_loss(teacher, before, trajectories, 1, "v_prediction")


def random_networks(config: Mapping[str, Mapping[str, Any]], device: str) -> Networks:
    """Return networks of diffusers' and transformers' configurations with random weights on a device."""
    torch.manual_seed(0)
    diffusion = Diffusion.from_config(SCHEDULER)
    with torch.device(device):
        text_encoder = CLIPTextModel(CLIPTextConfig(**config["text_encoder"]))
        unet = diffusers.UNet2DConditionModel(**_plain(config["unet"]))
        vae = diffusers.AutoencoderKL(**_plain(config["vae"]))
    return Networks(
        checkpoint=cast(Any, None),
        folder=Path(),
        device=device,
        diffusion=diffusion,
        levels=Levels.of(diffusion, device),
        tokenizer=CLIPTokenizer.from_pretrained(CHECKPOINT / "tokenizer"),
        text_encoder=frozen(text_encoder),
        unet=unet.to(memory_format=torch.channels_last),
        vae=frozen(vae),
    )


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if not name.startswith("_")}


def _demo_config() -> dict[str, dict[str, Any]]:
    folders = "text_encoder", "unet", "vae"
    return {name: json.loads((CHECKPOINT / name / "config.json").read_text("utf-8")) for name in folders}

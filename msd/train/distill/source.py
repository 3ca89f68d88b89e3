"""What a distillation learns from: the teacher's trajectories for prompts, or pictures with captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from msd.bundle import file_facts
from msd.compress.calibration.prompt_file import read_prompts
from msd.errors import BadConfig
from msd.files.fingerprint import fingerprint
from msd.files.wording import counted
from msd.models.families.stable_diffusion import VAE_ENCODER
from msd.train.distill.levels import timesteps
from msd.train.distill.networks import Networks
from msd.train.distill.passes import PointSource
from msd.train.distill.pictures import CaptionedImages, Pictures, encode_pictures, read_captioned
from msd.train.distill.settings import DistillationSettings
from msd.train.distill.trajectories import OnProgress, Trajectories, TrajectoryPlan, make_trajectories

if TYPE_CHECKING:
    from accelerate import Accelerator

MOST_PROMPTS = 1_000_000


@dataclass(frozen=True)
class SourcePlan:
    """A source that is not made yet: what it is in words, and a fingerprint of all that determines it."""

    summary: str
    key: str
    make: Callable[[Accelerator, OnProgress], PointSource]


def plan_source(teacher: Networks, settings: DistillationSettings) -> SourcePlan:
    """Return the source that settings ask for.

    Raises BadConfig for none or two, and BadCalibration for prompts or captions that cannot be read.
    """
    data = settings.data
    if data.images is None and data.prompts is not None:
        return _trajectories(teacher, settings, data.prompts)
    if data.images is not None and data.prompts is None:
        return _pictures(teacher, settings, data.images)
    raise BadConfig("a student learns from prompts or from images; give one of them")


def _trajectories(teacher: Networks, settings: DistillationSettings, prompts: Path) -> SourcePlan:
    texts = read_prompts(prompts, MOST_PROMPTS)
    plan = TrajectoryPlan.of(teacher, texts, settings.goal, settings.data)
    weights = _hashes(teacher)
    key = fingerprint([weights, plan.key, settings.precision])
    folder = settings.state / f"trajectories-{key[:12]}"
    steps, megabytes = len(plan.timesteps) - 1, max(1, round(plan.bytes / 1e6))
    how_many = counted(plan.count, "trajectory", "trajectories")
    summary = f"{how_many} of {counted(steps, 'step')}, {megabytes} MB in {settings.state}"
    return SourcePlan(summary, key, partial(_make_trajectories, teacher, plan, folder))


def _make_trajectories(
    teacher: Networks, plan: TrajectoryPlan, folder: Path, accelerator: Accelerator, on_progress: OnProgress
) -> PointSource:
    share = accelerator.process_index, accelerator.num_processes
    with accelerator.autocast():
        make_trajectories(teacher, plan, folder, share, on_progress)
    accelerator.wait_for_everyone()
    return Trajectories(plan, folder, teacher.levels, teacher.device)


def _pictures(teacher: Networks, settings: DistillationSettings, images: Path) -> SourcePlan:
    captioned = read_captioned(images)
    weights = _hashes(teacher, VAE_ENCODER.name)
    latents = fingerprint([weights, captioned.key, teacher.latent_shape])
    asked = settings.goal.guidance, settings.goal.teacher_steps, settings.data.seed, settings.precision
    path = settings.state / f"pictures-{latents[:12]}.npy"
    count = len(captioned.files)
    summary = f"{counted(count, 'image')} of {images}, the latents in {settings.state}"
    make = partial(_make_pictures, teacher, settings, captioned, path)
    return SourcePlan(summary, fingerprint([latents, repr(asked)]), make)


def _make_pictures(
    teacher: Networks,
    settings: DistillationSettings,
    captioned: CaptionedImages,
    path: Path,
    accelerator: Accelerator,
    on_progress: OnProgress,
) -> PointSource:
    if accelerator.is_main_process:
        encode_pictures(teacher, captioned, path, on_progress)
    accelerator.wait_for_everyone()
    return Pictures(
        latents=np.load(path, mmap_mode="r"),
        ids=teacher.token_ids([*captioned.captions, ""]),
        guidance=settings.goal.guidance,
        timesteps=timesteps(teacher.diffusion, settings.goal.teacher_steps),
        levels=teacher.levels,
        device=teacher.device,
    )


def _hashes(teacher: Networks, *others: str) -> list[str]:
    """Return the SHA-256 of the files with the weights of text encoders, the U-Net, and other components."""
    checkpoint, family = teacher.checkpoint, teacher.checkpoint.family
    components = (*(each.name for each in family.text_encoders), family.denoiser.name, *others)
    names = sorted({name for each in components for name in checkpoint.weight_files.get(each, ())})
    return [file_facts(checkpoint.files[name]).sha256 for name in names]

"""A distillation from a checkpoint to its student's: trajectories, then one stage after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

from msd.bundle import ImageDefaults
from msd.compress.rounding.rounding import OnLayer
from msd.errors import BadConfig
from msd.files.atomic import atomic_write
from msd.files.wording import counted
from msd.train.distill.blocks import points_of, recovery_loss
from msd.train.distill.compensation import compensate_layers
from msd.train.distill.consistency import consistency_loss
from msd.train.distill.fake_quantization import quantize_layers, release_layers
from msd.train.distill.networks import Networks, frozen, open_networks
from msd.train.distill.objectives import Loss, guidance_loss, halving_loss
from msd.train.distill.passes import PointSource
from msd.train.distill.recovery import RecoveryPlan, plan_recovery
from msd.train.distill.refit import RUNS, refit_narrow, seeded_passes
from msd.train.distill.result import DistilledCheckpoint, scheduler_of, write_lora, write_result
from msd.train.distill.samples import PROMPTS, sample, save_losses, save_sheet
from msd.train.distill.saving import says_unwritable
from msd.train.distill.settings import TEACHER_STEPS, DistillationSettings
from msd.train.distill.source import plan_source
from msd.train.distill.stages import DistillationStage, plan_stages
from msd.train.distill.student import Student, new_student
from msd.train.distill.training import (
    LOG,
    StageRun,
    TrainingProgress,
    least_bytes,
    remove_states,
    says_no_memory,
    train,
)
from msd.train.distill.units import ChoiceOnPoints
from msd.train.pytorch.backend import device_name
from msd.train.pytorch.narrowing import Narrowing

if TYPE_CHECKING:
    from accelerate import Accelerator

STUDENT = "student.safetensors"
BEGUN = "begun.safetensors"
"""What a recovery begins with, kept until it ends."""

FEW_STEPS = 4
"""The usual number of steps of latent consistency models."""

LONGEST_WAIT = timedelta(days=2)
"""How long processes wait for the one that refits or encodes pictures; by default they give up in minutes."""

DTYPES = {"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Announcement:
    """What a distillation is going to do: where, what it learns from, its stages, those `missing` of them."""

    device: str
    teacher: Networks
    summary: str
    stages: Sequence[DistillationStage]
    missing: Sequence[str]
    least_bytes: int
    recovery: str | None = None
    """What the network that is recovered has lost, in words."""
    has_int4: bool = False
    """Whether weights are trained in int4, which takes a smaller rate than others."""

    @property
    def turns_to_v(self) -> bool:
        """Whether the students predict v of a teacher that predicts noise."""
        return any(stage.prediction != self.teacher.prediction for stage in self.stages)


@dataclass(frozen=True)
class Observer:
    """What is called while a distillation runs, on its main process."""

    on_plan: Callable[[Announcement], None]
    on_source: Callable[[int, int], None]
    on_progress: Callable[[TrainingProgress], None]
    on_layer: OnLayer = lambda done, total: None
    """Called while int4 layers are rounded before they are trained."""
    on_choice: Callable[[], None] = lambda: None
    """Called before units are chosen on points of what students learn from."""


def distill(
    folder: Path, out: Path, settings: DistillationSettings, observer: Observer
) -> DistilledCheckpoint:
    """Distil the checkpoint in `folder` to a new one in `out`; what an earlier run completed is not repeated.

    Every process of `accelerate launch` calls this. Raises BadCheckpoint, BadConfig, BadCalibration for bad
    prompts or captions, BadImage, NotFinite where a loss is not, and OutputUnwritable.
    """
    accelerator = start_accelerator(settings)
    teacher = open_networks(folder, str(accelerator.device))
    goal = replace(settings.goal, usual=teacher.checkpoint.images or ImageDefaults())
    settings = replace(settings, goal=goal)
    source = plan_source(teacher, settings)
    on_source = observer.on_source if accelerator.is_main_process else _ignore
    make_source = cache(partial(source.make, accelerator, on_source))
    recovery = None
    if goal.recover is not None:
        choose = ChoiceOnPoints(
            teacher=teacher,
            settings=settings,
            source=make_source,
            key=source.key,
            accelerator=accelerator,
            on_begin=observer.on_choice,
        )
        recovery = plan_recovery(teacher, goal.recover, settings.rules, choose)
    key = recovery.key if recovery else ""
    stages = plan_stages(goal, teacher.prediction, settings.training, source.key, key)
    if accelerator.is_main_process:
        device = device_name(accelerator.device)
        observer.on_plan(_announcement(teacher, source.summary, stages, settings, recovery, device))
    run = _Run(
        teacher=teacher,
        source=make_source(),
        settings=settings,
        accelerator=accelerator,
        observer=observer,
        recovery=recovery,
    )
    student = run.students(stages)
    result = run.result(student, stages)
    if accelerator.is_main_process:
        write_lora(result, out) if settings.training.lora else write_result(teacher, result, out)
    accelerator.wait_for_everyone()
    return result


def _ignore(done: int, total: int) -> None:
    """Take progress that another process shows."""


def is_main_process() -> bool:
    """Return whether this is the process that writes and prints, of those that a launcher started."""
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


def _announcement(
    teacher: Networks,
    summary: str,
    stages: Sequence[DistillationStage],
    settings: DistillationSettings,
    recovery: RecoveryPlan | None,
    device: str,
) -> Announcement:
    parameters = sum(weight.numel() for weight in teacher.unet.parameters())
    weights_bytes = least_bytes(parameters, settings.training, settings.precision)
    return Announcement(
        device=device,
        teacher=teacher,
        summary=summary,
        stages=stages,
        missing=[stage.name for stage in stages if not (settings.state / stage.folder / STUDENT).exists()],
        least_bytes=weights_bytes + (recovery.swings_bytes(teacher.unet) if recovery else 0),
        recovery=recovery.summary if recovery else None,
        has_int4=recovery is not None and recovery.has_int4,
    )


def start_accelerator(settings: DistillationSettings) -> Accelerator:
    """Return accelerate's view of this process, set up so that a seed determines the result on one GPU.

    Raises BadConfig for a batch that the processes and parts cannot share.
    """
    from accelerate import Accelerator, InitProcessGroupKwargs

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("warn")  # as use_deterministic_algorithms, without torch.compile's 3 s
    torch.utils.deterministic.fill_uninitialized_memory = False  # we read nothing that we have not written
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = True
    training = settings.training
    accelerator = Accelerator(
        mixed_precision=settings.precision,
        gradient_accumulation_steps=training.accumulate,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=LONGEST_WAIT)],
    )
    if training.batch % (training.accumulate * accelerator.num_processes):
        raise BadConfig(
            f"a batch of {training.batch} cannot be shared by {accelerator.num_processes} processes in"
            f" {training.accumulate} parts each; give a multiple of both"
        )
    return accelerator


def _save(unet: Any, path: Path) -> None:
    """Write the weights of a U-Net; raises OutputUnwritable."""
    state = {name: tensor.contiguous() for name, tensor in unet.state_dict().items()}
    with atomic_write(path) as temporary, says_unwritable(path):
        save_file(state, temporary)


@dataclass(frozen=True)
class _Run:
    """What all stages share."""

    teacher: Networks
    source: PointSource
    settings: DistillationSettings
    accelerator: Accelerator
    observer: Observer
    recovery: RecoveryPlan | None = None

    def students(self, stages: Sequence[DistillationStage]) -> Student:
        """Return the student of the last stage, after all that are missing."""
        student = Student(self.teacher.unet, self.teacher.prediction)
        for stage in stages:
            student = self._student(stage, student)
        return student

    def _student(self, stage: DistillationStage, before: Student) -> Student:
        """Return a stage's student: as it was kept, or trained now."""
        scale, training = self.settings.goal.guidance, self.settings.training
        takes_scale = bool(scale and scale.is_range)
        unet = new_student(before.unet, takes_scale, training)
        recovery = self.recovery if stage.objective == "recovery" else None
        if recovery:
            unet = recovery.narrowing.narrow(unet)
        path = self.settings.state / stage.folder / STUDENT
        if path.exists():
            unet.load_state_dict(load_file(path))
        else:
            whole = self._frozen(before)
            with self.accelerator.autocast():
                loss = self._loss(stage, whole)
            run, on_progress = self._stage_run(stage), self.observer.on_progress
            if recovery:
                self._begin(unet, whole.unet, stage, recovery)
            unet = train(run, unet, loss, self.accelerator, on_progress, self._sampler(stage))
            release_layers(unet)
            self._keep(unet, path)
        return Student(unet, stage.prediction)

    def _begin(self, unet: Any, whole: Any, stage: DistillationStage, recovery: RecoveryPlan) -> None:
        """Let a network begin refitted and rounded, which one process computes and keeps."""
        if not recovery.narrowing.kept and not recovery.has_int4:
            quantize_layers(unet, recovery.integers)
            return
        path, scales = self.settings.state / stage.folder / BEGUN, {}
        is_first = self.accelerator.is_main_process and not path.exists()
        if is_first:
            draw = points_of(self.source, stage.steps, self.settings.goal.both_passes)
            run = seeded_passes(self.teacher, draw, self.settings.data.seed)
            unet.to(whole.device)
            with self.accelerator.autocast(), says_no_memory(stage.name):
                refit_narrow(unet, whole, recovery.narrowing, run, path.parent)
                scales = compensate_layers(unet, recovery.integers, run, RUNS, self.observer.on_layer)
        quantize_layers(unet, recovery.integers, scales, self.settings.training.updates)
        if is_first:
            _save(unet, path)
        self.accelerator.wait_for_everyone()
        unet.load_state_dict(load_file(path))

    def _frozen(self, before: Student) -> Student:
        """Return what a stage learns from, frozen in the precision of passes; no other is on the GPU."""
        dtype = DTYPES[self.settings.precision]
        unet = torch.nn.Module.to(frozen(before.unet), self.teacher.device, dtype)
        if unet is not self.teacher.unet:
            self.teacher.unet.to("cpu")
        return Student(unet, before.prediction)

    def _loss(self, stage: DistillationStage, before: Student) -> Loss:
        if stage.objective == "guidance":
            return guidance_loss(self.teacher, self.source, stage.prediction)
        if stage.objective == "consistency":
            return consistency_loss(self.teacher, self.source, stage.prediction)
        if stage.objective == "recovery":
            return self._recovery_loss(stage, before)
        assert stage.steps is not None
        return halving_loss(self.teacher, before, self.source, stage.steps, stage.prediction)

    def _recovery_loss(self, stage: DistillationStage, before: Student) -> Loss:
        goal, finest = self.settings.goal, len(self.source.timesteps) - 1
        steps = stage.steps or (min(self.images.steps, finest) if goal.lcm else finest)
        guidance = goal.usual.guidance if goal.both_passes else 1.0
        return recovery_loss(self.teacher, before, self.source, steps, guidance)

    def _stage_run(self, stage: DistillationStage) -> StageRun:
        settings = self.settings
        return StageRun(
            name=stage.name,
            folder=settings.state / stage.folder,
            training=settings.training,
            seed=settings.data.seed,
            save_every=settings.save_every,
            sample_every=settings.sample_every,
            cuda_graph=settings.cuda_graph,
        )

    def _sampler(self, stage: DistillationStage) -> Callable[[Any, int], None]:
        """Return a function that writes a sheet of a student's images, and the losses so far."""
        folder = self.settings.state / stage.folder
        ids, scale = self.source.ids[:-1][:PROMPTS], self.images.guidance
        steps = stage.steps or TEACHER_STEPS

        def on_sample(unet: Any, update: int) -> None:
            latents = sample(self.teacher, Student(unet, stage.prediction), ids, scale, steps)
            save_sheet(self.teacher.images(latents), folder / f"samples-{update:06}.png")
            save_losses(folder / LOG, folder / "loss.png")

        return on_sample

    def _keep(self, unet: Any, path: Path) -> None:
        """Write what a stage has learnt, and delete its state, which is no longer needed."""
        if self.accelerator.is_main_process:
            _save(unet, path)
            remove_states(path.parent)
            (path.parent / BEGUN).unlink(missing_ok=True)
        self.accelerator.wait_for_everyone()

    @property
    def images(self) -> ImageDefaults:
        """The steps and the guidance of the student's images."""
        goal, usual = self.settings.goal, self.settings.goal.usual
        steps = goal.steps or (FEW_STEPS if goal.lcm else usual.steps)
        if goal.guidance is None:
            return ImageDefaults(steps, usual.guidance)
        if goal.guidance.is_range:
            return ImageDefaults(steps, min(max(usual.guidance, goal.guidance.least), goal.guidance.most))
        return ImageDefaults(steps, 1.0)

    def result(self, student: Student, stages: Sequence[DistillationStage]) -> DistilledCheckpoint:
        """Return the checkpoint of the last student."""
        config = dict(self.teacher.checkpoint.scheduler)
        settings, recovery = self.settings, self.recovery
        record = {
            "teacher": self.teacher.checkpoint.name,
            "guidance": asdict(settings.goal.guidance) if settings.goal.guidance else None,
            "stages": [stage.name for stage in stages],
            "training": asdict(settings.training),
            "learnt_from": "images"
            if settings.data.images
            else counted(settings.data.trajectories, "trajectory", "trajectories"),
            "teacher_steps": settings.goal.teacher_steps,
            "seed": settings.data.seed,
            "precision": settings.precision,
        }
        if recovery:
            record |= {"recovered": settings.goal.recover, "pruned": recovery.pruned}
        scheduler = scheduler_of(settings.goal, config, student.prediction)
        return DistilledCheckpoint(
            unet=student.unet,
            scheduler=scheduler,
            images=self.images,
            record=record,
            narrowing=recovery.narrowing if recovery else Narrowing(),
        )

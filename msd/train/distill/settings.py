"""What a distillation is asked for, and how it trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msd.bundle import ImageDefaults
from msd.graph.rewrite import Rewrite

Precision = Literal["no", "bf16", "fp16"]
Optimizer = Literal["adamw", "adamw8bit"]

TEACHER_STEPS = 20
"""The least number of steps of the teacher's trajectories."""


@dataclass(frozen=True)
class ScaleRange:
    """The scales of guidance that become part of one pass: one, or a range that stays an input."""

    least: float
    most: float

    @property
    def is_range(self) -> bool:
        """Whether the network gets the scale as an input."""
        return self.least < self.most


@dataclass(frozen=True)
class Goal:
    """What the student should do: guidance in one pass, fewer steps, or both."""

    guidance: ScaleRange | None = None
    steps: int | None = None
    lcm: bool = False
    """Whether it becomes a latent consistency model, for which `steps` is only the usual number of steps."""
    recover: str | None = None
    """The recipe or prune report whose pruned or quantised network the student is in the end."""
    usual: ImageDefaults = field(default_factory=ImageDefaults)
    """The steps and the guidance of the teacher's own images."""

    @property
    def only_recovers(self) -> bool:
        """Whether the student does what its teacher does, and no more."""
        return self.recover is not None and self.guidance is None and self.steps is None

    @property
    def grid_steps(self) -> int | None:
        """The steps of the only timesteps at which the student, or its teacher, runs; None: at any."""
        if self.only_recovers:
            return self.usual.steps if self.usual.steps < TEACHER_STEPS else None
        return None if self.lcm else self.steps

    @property
    def both_passes(self) -> bool:
        """Whether the student's images take a second pass for guidance."""
        return self.guidance is None and self.usual.guidance != 1

    @property
    def trajectory_guidance(self) -> ScaleRange | None:
        """The scales of the teacher's trajectories; None: they are not guided, and some have no prompt."""
        if self.only_recovers:
            return ScaleRange(self.usual.guidance, self.usual.guidance)
        return self.guidance

    @property
    def teacher_steps(self) -> int:
        """The steps of the teacher's trajectories: `steps`, or 1, doubled until they are enough.

        Those of a teacher of fewer steps, of which nothing but a recovery is asked, are its own.
        """
        if self.only_recovers and self.grid_steps:
            return self.grid_steps
        steps = self.steps if self.steps and not self.lcm else 1
        while steps < TEACHER_STEPS:
            steps *= 2
        return steps


@dataclass(frozen=True)
class Training:
    """The numbers of one stage's training, AdamW with gradients of norm 1 at most.

    The rate rises for `warmup` updates and falls to zero at the last; `batch` is that of all processes
    together, in `accumulate` parts.
    """

    updates: int = 2000
    batch: int = 16
    rate: float = 5e-5
    warmup: int = 100
    accumulate: int = 1
    optimizer: Optimizer = "adamw"
    gradient_checkpointing: bool = False
    lora: int | None = None
    """The rank of the matrices that learn for latent consistency, in place of all weights."""


@dataclass(frozen=True)
class TeacherData:
    """What students learn from: trajectories for prompts, one to a line, or `images` with captions."""

    prompts: Path | None
    trajectories: int = 2000
    seed: int = 0
    images: Path | None = None


@dataclass(frozen=True)
class DistillationSettings:
    """Everything that determines a distillation but the checkpoint; `state` is the folder of its stages."""

    data: TeacherData
    goal: Goal
    state: Path
    training: Training = field(default_factory=Training)
    precision: Precision = "no"
    rules: Sequence[Rewrite] = ()
    """The rewrites of a conversion, which decide what of a recovered network becomes integers."""
    save_every: int = 200
    sample_every: int = 0
    cuda_graph: bool = True
    """Whether one GPU records an update and repeats it; it decides the speed and no number."""

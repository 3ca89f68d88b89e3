"""The stages of a distillation, in order: guidance first, then half as many steps, and half again."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from msd.distill.settings import Goal, Training
from msd.files.fingerprint import fingerprint

NOISE_STEPS = 16
"""The fewest steps of students that predict noise.

Clean latents that are computed from noise multiply its errors where there is hardly any signal, and few steps
do not mend that (Salimans and Ho 2022, arXiv 2202.00512, section 4): students of fewer steps predict v.
"""


@dataclass(frozen=True)
class DistillationStage:
    """One stage: its student takes `steps` steps, or any number if None, and predicts `prediction`.

    `key` is a fingerprint of everything that determines the student.
    """

    name: str
    steps: int | None
    prediction: str
    key: str

    @property
    def folder(self) -> str:
        """The name of the stage's folder: equal names mean equal students."""
        return f"{self.name}-{self.key[:12]}"


def plan_stages(goal: Goal, prediction: str, training: Training, data: str) -> list[DistillationStage]:
    """Return the stages for a teacher with this `prediction`; `data` is the trajectories' fingerprint."""
    last = student_prediction(goal, prediction)
    steps = goal.teacher_steps
    wanted: list[tuple[str, int | None]] = [("guidance", None)] if goal.guidance else []
    while goal.steps is not None and steps > goal.steps:
        steps //= 2
        wanted.append((f"steps-{steps}", steps))
    stages, key = [], data
    for name, count in wanted:
        key = fingerprint([key, name, last, asdict(training)])
        stages.append(DistillationStage(name, count, last, key))
    return stages


def student_prediction(goal: Goal, prediction: str) -> str:
    """Return what a student predicts, "epsilon" or "v_prediction"."""
    return "v_prediction" if goal.steps is not None and goal.steps < NOISE_STEPS else prediction

"""The stages of a distillation, in order: guidance first, then half as many steps, and half again.

Latent consistency takes one stage, of which guidance is a part. Recovery is the last: pruned and rounded
networks learn from the whole one what that has learnt by then.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from msd.files.fingerprint import fingerprint
from msd.train.distill.settings import Goal, Training

Objective = Literal["guidance", "halving", "consistency", "recovery"]

NOISE_STEPS = 4
"""The fewest steps of students that predict noise.

Clean latents that are computed from noise multiply its errors where there is hardly any signal, and few steps
do not mend that (Salimans and Ho 2022, arXiv 2202.00512, section 4): students of fewer steps predict v.
"""


@dataclass(frozen=True)
class DistillationStage:
    """One stage: what its student learns, how many steps it takes, or None, and what it predicts.

    `key` is a fingerprint of everything that determines the student.
    """

    name: str
    objective: Objective
    steps: int | None
    prediction: str
    key: str

    @property
    def folder(self) -> str:
        """The name of the stage's folder: equal names mean equal students."""
        return f"{self.name}-{self.key[:12]}"


def plan_stages(
    goal: Goal, prediction: str, training: Training, data: str, recovery: str = ""
) -> list[DistillationStage]:
    """Return the stages for a teacher with this `prediction`.

    `data` is the trajectories' fingerprint, `recovery` that of the network to be recovered.
    """
    last = student_prediction(goal, prediction)
    steps = goal.teacher_steps
    wanted: list[tuple[str, Objective, int | None]] = []
    if goal.lcm:
        wanted.append(("lcm", "consistency", goal.steps))
    elif goal.guidance:
        wanted.append(("guidance", "guidance", None))
    while goal.steps is not None and not goal.lcm and steps > goal.steps:
        steps //= 2
        wanted.append((f"steps-{steps}", "halving", steps))
    if goal.recover is not None:
        wanted.append(("recover", "recovery", goal.grid_steps))
    stages, key = [], data
    for name, objective, count in wanted:
        key = fingerprint([key, name, last, asdict(training), *([recovery] if name == "recover" else [])])
        stages.append(
            DistillationStage(name=name, objective=objective, steps=count, prediction=last, key=key)
        )
    return stages


def student_prediction(goal: Goal, prediction: str) -> str:
    """Return what a student predicts, "epsilon" or "v_prediction"."""
    few = goal.steps is not None and goal.steps < NOISE_STEPS and not goal.lcm
    return "v_prediction" if few else prediction

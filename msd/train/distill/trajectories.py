"""The teacher's own trajectories, made once and kept on the disk: students learn from them instead of images.

Each leads from noise to clean latents by DDIM's steps of the guided teacher, so that students see the latents
that they meet when they generate. Data-free distillation from trajectories: arXiv 2503.07274.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msd.files.atomic import atomic_write
from msd.files.fingerprint import fingerprint
from msd.train.distill.levels import Levels, timesteps
from msd.train.distill.networks import Networks
from msd.train.distill.passes import Points, guided_output, sent
from msd.train.distill.settings import Goal, ScaleRange, TeacherData

PART_CELLS = 1 << 16
"""The latents' rows × columns of all trajectories in one file, which are made together."""

UNPROMPTED = 10
"""Where both passes stay, one trajectory in so many has the empty prompt, as models are trained on."""

OnProgress = Callable[[int, int], None]
"""Called with the trajectories that are done, and their number."""


@dataclass(frozen=True)
class TrajectoryPlan:
    """Which trajectories there are: their prompts, scales of guidance, noise and timesteps."""

    ids: Any
    guidance: ScaleRange | None
    timesteps: Sequence[int]
    shape: tuple[int, int, int]
    count: int
    seed: int

    @staticmethod
    def of(networks: Networks, prompts: Sequence[str], goal: Goal, data: TeacherData) -> TrajectoryPlan:
        """Return the plan of a distillation; raises BadConfig for impossible steps."""
        return TrajectoryPlan(
            ids=networks.token_ids([*prompts, ""]),
            guidance=goal.trajectory_guidance,
            timesteps=timesteps(networks.diffusion, goal.teacher_steps),
            shape=networks.latent_shape,
            count=data.trajectories,
            seed=data.seed,
        )

    @property
    def key(self) -> str:
        """A fingerprint of the plan, which determines the trajectories of a teacher."""
        guidance = self.guidance and asdict(self.guidance)
        return fingerprint(
            [self.ids.tolist(), guidance, [*self.timesteps], self.shape, self.count, self.seed]
        )

    @property
    def per_part(self) -> int:
        """The trajectories in each file but the last."""
        return max(1, PART_CELLS // math.prod(self.shape[1:]))

    @property
    def parts(self) -> list[range]:
        """The trajectories in each file."""
        return [
            range(first, min(first + self.per_part, self.count))
            for first in range(0, self.count, self.per_part)
        ]

    @property
    def bytes(self) -> int:
        """The size of all files, in float16."""
        return 2 * self.count * len(self.timesteps) * math.prod(self.shape)

    @property
    def is_guided(self) -> bool:
        """Whether the teacher makes a second pass, for guidance."""
        return self.guidance is not None and self.guidance.most != 1

    def prompt(self, trajectory: int) -> int:
        """Return the row of `ids` of a trajectory's prompt; the last row is the empty prompt."""
        if self.guidance is None and trajectory % UNPROMPTED == UNPROMPTED - 1:
            return len(self.ids) - 1
        return trajectory % (len(self.ids) - 1)

    def scale(self, trajectory: int) -> float:
        """Return the scale of a trajectory's guidance; 1 is none."""
        if self.guidance is None:
            return 1.0
        part = float(np.random.default_rng([self.seed, trajectory, 1]).random())
        return self.guidance.least + part * (self.guidance.most - self.guidance.least)

    def noise(self, trajectory: int) -> Any:
        """Return the noise that a trajectory starts from, (C, H, W)."""
        generator = np.random.default_rng([self.seed, trajectory])
        return torch.from_numpy(generator.standard_normal(self.shape, np.float32))


class Trajectories:
    """All trajectories of a plan, read from their files as they are needed."""

    def __init__(self, plan: TrajectoryPlan, folder: Path, levels: Levels, device: str) -> None:
        self.plan, self.ids, self.timesteps = plan, plan.ids, plan.timesteps
        self._levels, self.device = levels, device
        self._parts = [np.asarray(np.load(_path(folder, i), mmap_mode="r")) for i, _ in enumerate(plan.parts)]
        self._prompts = torch.tensor([plan.prompt(i) for i in range(plan.count)])
        self._scales = torch.tensor([plan.scale(i) for i in range(plan.count)])

    def on_grid(self, random: Any, size: int, steps: int) -> tuple[Points, Any]:
        """Return random points at the timesteps of `steps` steps, and the number of each one's step (B,).

        `steps` divides the number of the trajectories' own steps.
        """
        stride = (len(self.plan.timesteps) - 1) // steps
        which = torch.randint(self.plan.count, (size,), generator=random)
        step = torch.randint(steps, (size,), generator=random)
        grid = torch.tensor(self.plan.timesteps)
        points = self._points(which, self._latents(which, step * stride), grid[step * stride])
        return points, sent(step, self.device)

    def anywhere(self, random: Any, size: int, among: Sequence[int] | None = None) -> Points:
        """Return random points at any timesteps, or `among` these; others than steps lie on DDIM's line."""
        grid = torch.tensor(self.plan.timesteps)
        which = torch.randint(self.plan.count, (size,), generator=random)
        choice = torch.arange(int(grid[0]) + 1) if among is None else torch.tensor(among)
        wanted = choice[torch.randint(len(choice), (size,), generator=random)]
        step = (grid[None] >= wanted[:, None]).sum(1) - 1
        ends = self._latents(which, step), self._latents(which, step + 1)
        ends_at = sent(grid[step], self.device), sent(grid[step + 1], self.device)
        latents = self._levels.between(ends, ends_at, sent(wanted, self.device))
        return self._points(which, latents, wanted)

    def _points(self, which: Any, latents: Any, at: Any) -> Points:
        ids, scales = self.plan.ids[self._prompts[which]], self._scales[which]
        return Points(
            latents=latents,
            timesteps=sent(at, self.device),
            ids=sent(ids, self.device),
            scales=sent(scales, self.device),
            ends=self._latents(which, torch.full_like(which, len(self.timesteps) - 1)),
        )

    def _latents(self, which: Any, steps: Any) -> Any:
        each = self.plan.per_part
        pairs = zip(which.tolist(), steps.tolist(), strict=True)
        rows = [self._parts[i // each][i % each, step] for i, step in pairs]
        return sent(torch.from_numpy(np.stack(rows)), self.device).float()


def make_trajectories(
    networks: Networks, plan: TrajectoryPlan, folder: Path, share: tuple[int, int], on_progress: OnProgress
) -> None:
    """Write the files that `folder` lacks: those of this process, the first of `share` in so many processes.

    Raises OutputUnwritable for a full disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for i, part in enumerate(plan.parts):
        if i % share[1] == share[0] and not _path(folder, i).exists():
            latents = _trajectories(networks, plan, part)
            with atomic_write(_path(folder, i)) as temporary, temporary.open("wb") as file:
                np.save(file, latents)
        on_progress(part.stop, plan.count)


def _trajectories(networks: Networks, plan: TrajectoryPlan, part: range) -> Any:
    """Return float16 (trajectories, steps + 1, C, H, W) of the teacher."""
    latents = torch.stack([plan.noise(i) for i in part]).to(networks.device)
    ids = plan.ids[[plan.prompt(i) for i in part]]
    conditions = networks.conditions(ids)
    empty = networks.conditions(plan.ids[-1:]) if plan.is_guided else None
    scales = torch.tensor([plan.scale(i) for i in part], device=networks.device)
    found = [latents]
    with torch.no_grad():
        for now, after in pairwise(plan.timesteps):
            at = torch.full((len(part),), now, device=networks.device)
            points = Points(latents=latents, timesteps=at, ids=ids, scales=scales, conditions=conditions)
            clean, noise = guided_output(networks, points, empty)
            latents = networks.levels.at(torch.full_like(at, after), clean, noise)
            found.append(latents)
    return torch.stack(found, 1).cpu().numpy().astype(np.float16)


def _path(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05}.npy"

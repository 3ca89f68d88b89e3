"""The losses of the stages: what a student should say at points of the teacher's trajectories."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from msd.distill.levels import Levels
from msd.distill.networks import Networks
from msd.distill.passes import PointSource, found, guided_output, output_of
from msd.distill.student import Student

Loss = Callable[[Any, Any, int], Any]
"""Returns a scalar: of a student, a generator of random numbers on the CPU, and a number of points."""


def guidance_loss(teacher: Networks, source: PointSource, prediction: str) -> Loss:
    """Return the loss of a student whose one pass says what the guided teacher says in two.

    Meng et al. (2022, arXiv 2210.03142), section 3.1, on trajectories in place of images: mean squares of
    what the student predicts, its `prediction`. At all timesteps, so that any schedule serves the student.
    """

    def loss(student: Any, random: Any, size: int) -> Any:
        points = source.anywhere(random, size)
        with torch.no_grad():
            clean, _ = guided_output(teacher, points, source.ids[-1:])
            wanted = teacher.levels.output(prediction, points.timesteps, points.latents, clean)
        said = output_of(student, points, teacher.context(points.ids))
        return torch.nn.functional.mse_loss(said, wanted)

    return loss


def halving_loss(teacher: Networks, half: Student, source: PointSource, steps: int, prediction: str) -> Loss:
    """Return the loss of a student whose one step, of `steps`, leads where two of `half` lead.

    Salimans and Ho (2022, arXiv 2202.00512), algorithm 2. Noise is weighted with "truncated SNR", the larger
    of the errors of clean latents and noise; v with "SNR + 1", which is its mean squares (section 4).
    """
    levels, whole = teacher.levels, source.timesteps
    grid = whole[:: len(whole) // (2 * steps)]
    triples = torch.tensor([*zip(grid[0::2], grid[1::2], grid[2::2], strict=False)], device=teacher.device)

    def loss(student: Any, random: Any, size: int) -> Any:
        points, step = source.on_grid(random, size, steps)
        context, here, at = teacher.context(points.ids), points, triples[step].T
        with torch.no_grad():
            for now, after in pairwise(at):
                here = here.moved(here.latents, now)
                output = output_of(half.unet, here, context)
                here = here.moved(levels.at(after, *found(levels, half.prediction, here, output)), after)
            clean = levels.aim((points.latents, here.latents), (at[0], at[2]))
        return _distance(levels, prediction, points, output_of(student, points, context), clean)

    return loss


def _distance(levels: Levels, prediction: str, points: Any, said: Any, clean: Any) -> Any:
    """Return the mean weighted squares of what is said (B, C, H, W) at points with these clean latents."""
    at = points.timesteps
    squares = (said - levels.output(prediction, at, points.latents, clean)).square().mean((1, 2, 3))
    if prediction == "epsilon":
        squares = squares * (levels.sigma(at) / levels.signal(at)).square().clamp(min=1).flatten()
    return squares.mean()

"""The losses of the stages: what a student should say at points of the teacher's trajectories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from msd.train.distill.levels import Levels
from msd.train.distill.networks import Networks
from msd.train.distill.passes import Points, PointSource, clean_and_noise, guided_output, output_of
from msd.train.distill.student import Student

Draw = Callable[[Any, int], Points]
"""Returns so many random points, of a generator of random numbers on the CPU."""


@dataclass(frozen=True)
class Loss:
    """What draws the points of an update, with all that Python decides, and a student's loss there, a scalar.

    `of` neither waits for the GPU nor copies from the CPU, so that a GPU can record it.
    """

    draw: Draw
    of: Callable[[Any, Points], Any]

    def __call__(self, student: Any, random: Any, size: int) -> Any:
        """Return the loss of a student at so many random points."""
        return self.of(student, self.draw(random, size))


def encoded(teacher: Networks, points: Points) -> Points:
    """Return points with the conditions of their prompts."""
    return replace(points, conditions=teacher.conditions(points.ids))


def guidance_loss(teacher: Networks, source: PointSource, prediction: str) -> Loss:
    """Return the loss of a student whose one pass predicts what the guided teacher does in two.

    Meng et al. (2022, arXiv 2210.03142), section 3.1, on trajectories in place of images: mean squares of
    what the student predicts, its `prediction`. At all timesteps, so that any schedule serves the student.
    """

    empty = teacher.conditions(source.ids[-1:])

    def draw(random: Any, size: int) -> Points:
        return encoded(teacher, source.anywhere(random, size))

    def loss(student: Any, points: Points) -> Any:
        with torch.no_grad():
            clean, _ = guided_output(teacher, points, empty)
            wanted = teacher.levels.output(prediction, points.timesteps, points.latents, clean)
        predicted = output_of(student, points, points.conditions)
        return torch.nn.functional.mse_loss(predicted, wanted)

    return Loss(draw, loss)


def halving_loss(teacher: Networks, half: Student, source: PointSource, steps: int, prediction: str) -> Loss:
    """Return the loss of a student whose one step, of `steps`, leads where two of `half` lead.

    Salimans and Ho (2022, arXiv 2202.00512), algorithm 2. Noise is weighted with "truncated SNR", the larger
    of the errors of clean latents and noise; v with "SNR + 1", which is its mean squares (section 4).
    """
    levels, whole = teacher.levels, source.timesteps
    grid = whole[:: len(whole) // (2 * steps)]
    triples = torch.tensor([*zip(grid[0::2], grid[1::2], grid[2::2], strict=False)], device=teacher.device)

    def draw(random: Any, size: int) -> Points:
        points, step = source.on_grid(random, size, steps)
        return replace(encoded(teacher, points), step=step)

    def loss(student: Any, points: Points) -> Any:
        here, at = points, triples[points.step].T
        with torch.no_grad():
            for now, after in pairwise(at):
                here = here.moved(here.latents, now)
                output = output_of(half.unet, here, points.conditions)
                here = here.moved(
                    levels.at(after, *clean_and_noise(levels, half.prediction, here, output)), after
                )
            clean = levels.aim((points.latents, here.latents), (at[0], at[2]))
        return _distance(levels, prediction, points, output_of(student, points, points.conditions), clean)

    return Loss(draw, loss)


def _distance(levels: Levels, prediction: str, points: Any, predicted: Any, clean: Any) -> Any:
    """Return the mean weighted squares of a prediction (B, C, H, W) at points with these clean latents."""
    at = points.timesteps
    squares = (predicted - levels.output(prediction, at, points.latents, clean)).square().mean((1, 2, 3))
    if prediction == "epsilon":
        squares = squares * (levels.sigma(at) / levels.signal(at)).square().clamp(min=1).flatten()
    return squares.mean()

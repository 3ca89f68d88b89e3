"""Latent consistency: a student whose predictions of all points of a trajectory agree on where it ends.

Luo et al. (2023, arXiv 2310.04378), with the numbers of diffusers' `train_lcm_distill_lora_sd_wds.py`, which
takes the student itself as the target, without an average (algorithm 1). That serves pictures with fresh
noise; trajectories on the disk have their ends, and students need not find them step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from msd.train.distill.levels import Levels
from msd.train.distill.networks import Networks
from msd.train.distill.objectives import Loss, encoded
from msd.train.distill.passes import Points, PointSource, clean_and_noise, guided_output, output_of
from msd.train.pytorch.modules import Tensors

SOLVER_STEPS = 50
"""The DDIM steps of the teacher, of which one lies between a point and its target."""

TIMESTEP_SCALING, SIGMA_DATA = 10.0, 0.5
"""Of the boundary condition: how fast a student's prediction leaves the latents that it is given."""

HUBER = 1e-3
"""Differences far below this count by their squares, others by their size."""


def consistency_loss(teacher: Networks, source: PointSource, prediction: str) -> Loss:
    """Return the loss of a student that predicts where the guided teacher leads from a point.

    A trajectory of the teacher's has this end, which is what consistency asks for (Luhman and Luhman 2021,
    arXiv 2101.02388, learn it of the first points). Where ends are not known, it is what the student predicts
    itself one step of the teacher later.
    """
    total = teacher.diffusion.num_train_timesteps
    stride = total // SOLVER_STEPS
    starts = range(stride - 1, total, stride)

    empty = teacher.conditions(source.ids[-1:])

    def draw(random: Any, size: int) -> Points:
        return encoded(teacher, source.anywhere(random, size, starts))

    def loss(student: Any, points: Points) -> Any:
        predicted = end_of(student, teacher.levels, prediction, points, points.conditions)
        with torch.no_grad():
            wanted = points.ends
            if wanted is None:
                later = _later(teacher, points, empty, stride)
                wanted = end_of(student, teacher.levels, prediction, later, points.conditions)
        return (((predicted - wanted).square() + HUBER**2).sqrt() - HUBER).mean()

    return Loss(draw, loss)


def _later(teacher: Networks, points: Points, empty: Tensors, stride: int) -> Points:
    """Return where one step of the guided teacher, over `stride` timesteps, leads from points."""
    clean, noise = guided_output(teacher, points, empty)
    later = (points.timesteps - stride).clamp(min=0)
    return points.moved(teacher.levels.at(later, clean, noise), later)


def end_of(unet: Any, levels: Levels, prediction: str, points: Points, conditions: Tensors) -> Any:
    """Return a student's prediction of where trajectories end, (B, C, H, W): themselves at timestep 0.

    Formula (9) of the paper.
    """
    clean, _ = clean_and_noise(levels, prediction, points, output_of(unet, points, conditions))
    skip, out = boundary(points.timesteps)
    return skip * points.latents + out * clean


def boundary(timesteps: Any) -> tuple[Any, Any]:
    """Return the weights of the latents and of the clean ones at timesteps (B,), (B, 1, 1, 1) each.

    Diffusers' `LCMScheduler.get_scalings_for_boundary_condition_discrete`.
    """
    scaled = TIMESTEP_SCALING * timesteps.float().view(-1, 1, 1, 1)
    squares = scaled.square() + SIGMA_DATA**2
    return SIGMA_DATA**2 / squares, scaled / squares.sqrt()


def lcm_scheduler(config: Mapping[str, Any], prediction: str) -> dict[str, Any]:
    """Return the scheduler_config.json of a latent consistency model, whose teacher's is `config`."""
    return {
        **config,
        "_class_name": "LCMScheduler",
        "clip_sample": False,
        "original_inference_steps": SOLVER_STEPS,
        "prediction_type": prediction,
        "set_alpha_to_one": True,
        "thresholding": False,
        "timestep_scaling": TIMESTEP_SCALING,
        "timestep_spacing": "leading",
    }

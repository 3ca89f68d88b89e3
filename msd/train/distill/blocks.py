"""What the blocks of a U-Net pass on, by which a pruned one learns faster than by its output alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from msd.train.distill.networks import Networks
from msd.train.distill.objectives import Draw, Loss, encoded
from msd.train.distill.passes import Points, PointSource, guided_output, sent
from msd.train.distill.student import Student

NEXT = 10
"""The weight of the next latents' error beside that of the blocks; with 100 and 400 only the latter grew."""


def recovery_loss(
    teacher: Networks, whole: Student, source: PointSource, steps: int, guidance: float
) -> Loss:
    """Return the loss of a student that moves latents in a step of its images as `whole` moves them.

    `NEXT` times the mean squares of the latents after one of DDIM's `steps`, plus the mean over the blocks of
    those of their outputs, relative to the whole one's own: the knowledge distillation of BK-SDM (Kim et al.
    2023, arXiv 2305.15798, section 3.2), whose blocks count by their size. A block whose output was pruned
    itself does not count.

    Where images have `guidance`, each point takes both passes, and what they differ by counts as guidance
    makes it count; 1 is none. The nth last step is drawn n times as often as the last: errors of early steps
    move images most.
    """
    visited = [*source.timesteps][:: (len(source.timesteps) - 1) // steps]
    often = [at for left, at in zip(range(steps, 0, -1), visited, strict=False) for _ in range(left)]
    grid = torch.tensor(visited, device=teacher.device)
    empty = None if guidance == 1 else teacher.conditions(source.ids[-1:])
    diffusion = replace(teacher.diffusion, prediction_type=whole.prediction)

    def draw(random: Any, size: int) -> Points:
        points = source.anywhere(random, size, often)
        step = (grid > points.timesteps[:, None]).sum(1)
        scales = points.scales if empty is None else torch.full_like(points.scales, guidance)
        return replace(encoded(teacher, points), step=step, scales=scales)

    def moved(unet: Any, points: Points) -> Any:
        networks = replace(teacher, unet=unet, diffusion=diffusion)
        return teacher.levels.at(grid[points.step + 1], *guided_output(networks, points, empty))

    def loss(student: Any, points: Points) -> Any:
        with torch.no_grad(), block_outputs(whole.unet) as wanted:
            after = moved(whole.unet, points)
        with block_outputs(student) as found:
            predicted = moved(student, points)
        return NEXT * torch.nn.functional.mse_loss(predicted, after) + _of_blocks(found, wanted)

    return Loss(draw, loss)


def points_of(source: PointSource, steps: int | None, both_passes: bool) -> Draw:
    """Return what draws points anywhere, or at the timesteps of `steps` steps.

    Where images take `both_passes`, half of the points have the empty prompt.
    """

    def draw(random: Any, size: int) -> Points:
        points = source.on_grid(random, size, steps)[0] if steps else source.anywhere(random, size)
        if not both_passes:
            return points
        prompted = sent(torch.rand(size, 1, generator=random) < 0.5, points.ids.device)
        empty = sent(source.ids[-1], points.ids.device)
        return replace(points, ids=torch.where(prompted, points.ids, empty))

    return draw


@contextmanager
def block_outputs(unet: Any) -> Iterator[dict[str, Any]]:
    """Yield the outputs of a U-Net's blocks, (B, C, H, W) by name, which its passes fill in."""
    unet, outputs = getattr(unet, "module", unet), dict[str, Any]()

    def keep(name: str, module: Any, inputs: Any, output: Any) -> None:
        outputs[name] = output[0] if isinstance(output, tuple) else output

    blocks = {
        **{f"down_blocks.{i}": block for i, block in enumerate(unet.down_blocks)},
        **({"mid_block": unet.mid_block} if unet.mid_block is not None else {}),
        **{f"up_blocks.{i}": block for i, block in enumerate(unet.up_blocks)},
    }
    hooks = [block.register_forward_hook(partial(keep, name)) for name, block in blocks.items()]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def _of_blocks(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Any:
    errors = [
        _relative(found[name], block) for name, block in wanted.items() if found[name].shape == block.shape
    ]
    return torch.stack(errors).mean()


def _relative(predicted: Any, wanted: Any) -> Any:
    wanted = wanted.float()
    return (predicted.float() - wanted).square().mean() / wanted.square().mean().clamp(min=1e-12)

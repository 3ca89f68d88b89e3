"""What the blocks of a U-Net pass on, by which a pruned one learns faster than by its output alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from msd.distill.networks import Networks
from msd.distill.objectives import Draw, Loss, encoded
from msd.distill.passes import Points, PointSource, output_of, sent


def recovery_loss(teacher: Networks, whole: Any, draw: Draw) -> Loss:
    """Return the loss of a student that says what the U-Net `whole` says, after every block and at the end.

    The mean squares of the output, plus the mean over the blocks of those of their outputs, relative to the
    whole one's own: the knowledge distillation of BK-SDM (Kim et al. 2023, arXiv 2305.15798, section 3.2),
    whose blocks count by their size. A block whose output was pruned itself does not count.
    """

    def loss(student: Any, points: Points) -> Any:
        with torch.no_grad(), block_outputs(whole) as wanted:
            output = output_of(whole, points, points.context)
        with block_outputs(student) as found:
            said = output_of(student, points, points.context)
        errors = [
            _relative(found[name], block)
            for name, block in wanted.items()
            if found[name].shape == block.shape
        ]
        return torch.nn.functional.mse_loss(said, output) + torch.stack(errors).mean()

    return Loss(lambda random, size: encoded(teacher, draw(random, size)), loss)


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


def _relative(said: Any, wanted: Any) -> Any:
    wanted = wanted.float()
    return (said.float() - wanted).square().mean() / wanted.square().mean().clamp(min=1e-12)

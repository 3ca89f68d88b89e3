"""A ControlNet of the demo's U-Net: half of that U-Net again, trained to follow the edges of a scene.

Zhang et al., "Adding Conditional Control to Text-to-Image Diffusion Models" (2023, arXiv 2302.05543).
"""

from __future__ import annotations

from typing import Any

import torch

from scripts.lab.demo_training.denoising import batches
from scripts.lab.demo_training.loop import TrainingRun, train
from scripts.lab.demo_training.recipe import TrainingRecipe

HINT_WIDTHS = 16, 32, 64, 96
"""Of the hint's layers; Stable Diffusion's are 16, 32, 96 and 256, for wider U-Nets."""


def controlnet(unet: Any) -> Any:
    """Return a ControlNet with the U-Net's weights, whose outputs are still 0."""
    from diffusers import ControlNetModel

    return ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=HINT_WIDTHS)


def as_hint(edges: Any) -> Any:
    """Return edges (B, H, W) of 0 and 1 as diffusers' ControlNets take them, float (B, 3, H, W) in 0…1."""
    return edges[:, None].float().expand(-1, 3, -1, -1)


def _loss(controlnet_: Any, frozen: Any, batch: tuple[Any, ...], hint: Any) -> Any:
    noisy, wanted, timesteps, ids, weight = batch
    with torch.autocast("cuda", torch.bfloat16, enabled=noisy.is_cuda):
        with torch.no_grad():
            states = frozen["text_encoder"](ids).last_hidden_state
        down, middle = controlnet_(noisy, timesteps, states, hint, return_dict=False)
        predicted = frozen["unet"](
            noisy,
            timesteps,
            states,
            down_block_additional_residuals=down,
            mid_block_additional_residual=middle,
            return_dict=False,
        )[0]
    return (weight * ((predicted.float() - wanted) ** 2).mean((1, 2, 3))).mean()


def fit(
    controlnet_: Any,
    frozen: Any,
    scenes: tuple[Any, Any],
    texts: tuple[Any, Any],
    scheduler: Any,
    recipe: TrainingRecipe,
    run: TrainingRun,
) -> float:
    """Train the ControlNet of `frozen` (a ModuleDict of "unet" and "text_encoder"); return the seconds.

    `scenes` are scaled latents (N, 4, 16, 16) and edges (N, 128, 128); `texts` the captions' ids (N, K, 77)
    and the empty caption's (77,). The loss is that of `denoising.fit`.
    """
    latents, edges = scenes
    controlnet_.to(run.device, memory_format=torch.channels_last)
    frozen.to(run.device, memory_format=torch.channels_last).requires_grad_(False)
    loss = torch.compile(_loss, dynamic=False) if run.compiles else _loss
    batch_at = batches(latents, *texts, scheduler, recipe, run)

    def at(step: int) -> Any:
        each = batch_at(step)
        batch = each.noisy, each.wanted, each.timesteps, each.ids, each.weight
        return loss(controlnet_, frozen, batch, as_hint(edges[each.chosen]))

    return train("controlnet", controlnet_, at, recipe.denoiser, run)

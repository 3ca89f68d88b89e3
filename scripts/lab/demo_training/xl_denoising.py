"""The training of Stable Diffusion XL's U-Net and two text encoders together, to predict the noise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from scripts.lab.demo_training.denoising import batches
from scripts.lab.demo_training.loop import TrainingRun, train
from scripts.lab.demo_training.recipe import Stage, TrainingRecipe

_UNTIMED, _TIMED = 15, 40
"""Steps that compile and warm up, and those by which the pace is known."""


def conditions(parts: Any, ids: Any, end: int) -> tuple[Any, Any]:
    """Return states (B, 77, 192) and the vector (B, 128) of ids padded by 0; zeros for empty captions.

    The first encoder's padding is `end`, as its tokenizer's is; both give the states before the last layer.
    """
    described = (ids[:, 1] != end).float()
    padded = torch.where(ids == 0, end, ids)
    first = parts["text_encoder"](padded, output_hidden_states=True).hidden_states[-2]
    second = parts["text_encoder_2"](ids, output_hidden_states=True)
    states = torch.cat([first, second.hidden_states[-2]], dim=-1)
    return states * described[:, None, None], second.text_embeds * described[:, None]


def _loss(
    unet: Any, noisy: Any, wanted: Any, timesteps: Any, given: tuple[Any, Any, Any], weight: Any
) -> Any:
    states, vector, sizes = given
    with torch.autocast("cuda", torch.bfloat16, enabled=noisy.is_cuda):
        added = {"text_embeds": vector, "time_ids": sizes}
        predicted = unet(noisy, timesteps, states, added_cond_kwargs=added, return_dict=False)[0]
    return (weight * ((predicted.float() - wanted) ** 2).mean((1, 2, 3))).mean()


def paced(stage: Stage, loss: Callable[[int], Any], seconds: float) -> Stage:
    """Return a stage of as many steps as fit into `seconds` from now, at most those of `stage`."""
    if stage.steps <= _UNTIMED + _TIMED:
        return stage
    begun = time.monotonic()
    for step in range(_UNTIMED + _TIMED):
        value = loss(step)
        value.backward()
        if step == _UNTIMED - 1:
            float(value.detach())
            warm = time.monotonic()
    float(value.detach())
    now = time.monotonic()
    # The optimiser's own work is not in the pace.
    fitting = int(0.95 * (seconds - (now - begun)) / (now - warm) * _TIMED)
    return replace(stage, steps=min(stage.steps, max(fitting, stage.warmup + 1)))


def fit(
    parts: Any,
    scenes: tuple[Any, Any],
    texts: tuple[Any, Any],
    scheduler: Any,
    recipe: TrainingRecipe,
    run: TrainingRun,
    seconds: float,
) -> tuple[Stage, float]:
    """Train `parts` ("unet", "text_encoder" and "text_encoder_2") for about `seconds`.

    Returns the stage, whose steps are those that fitted, and the seconds that they took.

    `scenes` are scaled latents (N, 4, 16, 16) and their sizes (N, 6); `texts` the captions' ids (N, K, 77)
    and the empty caption's (77,), padded by 0. The loss is that of `denoising.fit`.
    """
    latents, sizes = scenes
    end = int(texts[1][1])
    parts.to(run.device, memory_format=torch.channels_last)
    loss = torch.compile(_loss, dynamic=False) if run.compiles else _loss
    batch_at = batches(latents, *texts, scheduler, recipe, run)

    def at(step: int) -> Any:
        each = batch_at(step)
        with torch.autocast("cuda", torch.bfloat16, enabled=latents.is_cuda):
            states, vector = conditions(parts, each.ids, end)
        given = states, vector, sizes[each.chosen]
        return loss(parts["unet"], each.noisy, each.wanted, each.timesteps, given, each.weight)

    stage = paced(recipe.denoiser, at, seconds)
    return stage, train("denoiser", parts, at, stage, run)

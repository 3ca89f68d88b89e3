"""The second stage: U-Net and text encoder, trained together to predict the noise in latents, or v."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from scripts.lab.demo_training.loop import TrainingRun, train
from scripts.lab.demo_training.recipe import TrainingRecipe


def _loss(parts: Any, noisy: Any, wanted: Any, timesteps: Any, ids: Any, weight: Any) -> Any:
    with torch.autocast("cuda", torch.bfloat16, enabled=noisy.is_cuda):
        states = parts["text_encoder"](ids).last_hidden_state
        predicted = parts["unet"](noisy, timesteps, states, return_dict=False)[0]
    return (weight * ((predicted.float() - wanted) ** 2).mean((1, 2, 3))).mean()


def _timesteps(batch: int, generator: Any, device: str) -> Any:
    """Return one timestep in each of `batch` equal parts of 0…999, which steadies the loss."""
    return (
        (torch.arange(batch, device=device) + torch.rand(batch, generator=generator, device=device))
        / batch
        * 1000
    ).long()


@dataclass(frozen=True)
class Batch:
    """Latents (B, 4, 16, 16) made noisy, what to predict of them, their captions' ids and the loss' weights.

    `chosen` are the numbers (B,) of their scenes.
    """

    chosen: Any
    noisy: Any
    wanted: Any
    timesteps: Any
    ids: Any
    weight: Any


def batches(
    latents: Any, ids: Any, empty: Any, scheduler: Any, recipe: TrainingRecipe, run: TrainingRun
) -> Callable[[int], Batch]:
    """Return a function from a step to its batch; for the arguments see `fit`."""
    batch, device = recipe.denoiser.batch, run.device
    alphas, says_v = scheduler.alphas_cumprod.to(device), scheduler.config.prediction_type == "v_prediction"

    def at(step: int) -> Batch:
        random = run.generator(recipe.seed + 1, step)
        chosen = torch.randint(len(latents), (batch,), generator=random, device=device)
        which = torch.randint(ids.shape[1], (batch,), generator=random, device=device)
        dropped = torch.rand(batch, generator=random, device=device) < recipe.empty_captions
        captions = torch.where(dropped[:, None], empty, ids[chosen, which]).long()
        timesteps = _timesteps(batch, random, device)
        noise = torch.randn((batch, *latents.shape[1:]), generator=random, device=device)
        squares = alphas[timesteps]
        signal, sigma = squares.sqrt()[:, None, None, None], (1 - squares).sqrt()[:, None, None, None]
        noisy = signal * latents[chosen] + sigma * noise
        wanted = signal * noise - sigma * latents[chosen] if says_v else noise
        ratio = squares / (1 - squares)
        weight = ratio.clamp(max=recipe.snr_limit) / (ratio + says_v)
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        return Batch(
            chosen=chosen, noisy=noisy, wanted=wanted, timesteps=timesteps, ids=captions, weight=weight
        )

    return at


def fit(
    parts: Any, latents: Any, ids: Any, empty: Any, scheduler: Any, recipe: TrainingRecipe, run: TrainingRun
) -> float:
    """Train `parts` (a ModuleDict of "unet" and "text_encoder") and return the seconds it took.

    `latents` are scaled, (N, 4, 16, 16); `ids` the captions of each, (N, K, 77); `empty` the empty caption's
    ids, (77,). `scheduler` says how latents become noisy, and whether noise or v is predicted. The loss is
    that of clean latents, weighted by min(SNR, γ).
    """
    parts.to(run.device, memory_format=torch.channels_last)
    loss = torch.compile(_loss, dynamic=False) if run.compiles else _loss
    batch_at = batches(latents, ids, empty, scheduler, recipe, run)

    def at(step: int) -> Any:
        each = batch_at(step)
        return loss(parts, each.noisy, each.wanted, each.timesteps, each.ids, each.weight)

    return train("denoiser", parts, at, recipe.denoiser, run)

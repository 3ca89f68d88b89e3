"""The first stage: a VAE that decodes the scenes from 16 × 16 × 4 latents, and those latents."""

from __future__ import annotations

from typing import Any

import torch

from scripts.lab.demo_training.loop import TrainingRun, train
from scripts.lab.demo_training.recipe import TrainingRecipe


def normalised(pictures: Any) -> Any:
    """Return uint8 (B, H, W, 3) as float (B, 3, H, W) in −1…1."""
    return pictures.permute(0, 3, 1, 2).float() / 127.5 - 1


def _edges(difference: Any) -> Any:
    down = (difference[:, :, 1:] - difference[:, :, :-1]).abs().mean()
    across = (difference[..., 1:] - difference[..., :-1]).abs().mean()
    return down + across


def _loss(vae: Any, pictures: Any, noise: Any, strength: Any, recipe: TrainingRecipe) -> Any:
    """Return L1 + edge L1 + KL of a batch whose latents carry the posterior's noise and some more."""
    wanted = normalised(pictures)
    with torch.autocast("cuda", torch.bfloat16, enabled=pictures.is_cuda):
        mean, log_variance = vae.quant_conv(vae.encoder(wanted)).float().chunk(2, dim=1)
        log_variance = log_variance.clamp(-30, 20)
        extra = strength * mean.detach().std()
        latents = mean + (log_variance.exp() + extra**2).sqrt() * noise
        difference = vae.decoder(vae.post_quant_conv(latents)).float() - wanted
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).mean()
    return difference.abs().mean() + recipe.edge_weight * _edges(difference) + recipe.kl_weight * divergence


def fit(vae: Any, pictures: Any, recipe: TrainingRecipe, run: TrainingRun) -> float:
    """Train `vae` on uint8 images (N, 128, 128, 3) on the run's device; returns the seconds it took."""
    vae.to(run.device, memory_format=torch.channels_last)
    loss = torch.compile(_loss, dynamic=False) if run.compiles else _loss
    shape = (recipe.autoencoder.batch, 4, pictures.shape[1] // 8, pictures.shape[2] // 8)

    def at(step: int) -> Any:
        random = run.generator(recipe.seed, step)
        chosen = torch.randint(len(pictures), (shape[0],), generator=random, device=run.device)
        noise = torch.randn(shape, generator=random, device=run.device)
        strength = recipe.latent_noise * torch.rand((shape[0], 1, 1, 1), generator=random, device=run.device)
        return loss(vae, pictures[chosen], noise, strength, recipe)

    return train("autoencoder", vae, at, recipe.autoencoder, run)


def latents(vae: Any, pictures: Any) -> Any:
    """Return the posterior means of images, (N, 4, 16, 16) float32, not yet scaled."""
    with torch.no_grad():
        blocks = [vae.encode(normalised(block)).latent_dist.mean for block in pictures.split(250)]
    return torch.cat(blocks)


def decoded(vae: Any, latents_: Any) -> Any:
    """Return unscaled latents as uint8 images (N, 128, 128, 3)."""
    with torch.no_grad():
        blocks = [vae.decode(block).sample for block in latents_.split(250)]
    return ((torch.cat(blocks).clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1)

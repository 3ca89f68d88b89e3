"""Inputs of a network, and what diffusers and transformers make of them, in a bundle's names and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from msd.models.families.stable_diffusion import GUIDANCE
from msd.models.trace import InputSpecs
from msd.train.pytorch.modules import ADDED

Array = np.ndarray[Any, Any]
Modules = Mapping[str, torch.nn.Module]
"""As `tests.checkpoints.write` returns them."""


def draw(inputs: InputSpecs, vocabulary: int, random: np.random.Generator) -> dict[str, Array]:
    """Return values for a network's inputs: late and early timesteps, any tokens, else normal ones."""
    drawn: dict[str, Array] = {}
    for name, (shape, dtype) in inputs.items():
        if np.dtype(dtype).kind == "i":
            drawn[name] = random.integers(0, vocabulary, shape, dtype=dtype)
        elif name == "timestep":
            drawn[name] = np.linspace(981, 3, *shape, dtype=dtype)
        else:
            drawn[name] = random.standard_normal(shape, dtype=dtype)
    return drawn


@torch.no_grad()
def reference(modules: Modules, component: str, inputs: Mapping[str, Array]) -> Array:
    """Return the output of a component, by its name; pictures, latents and moments are NHWC."""
    return OUTPUTS[component](modules, inputs)


@torch.no_grad()
def timestep_embedding(modules: Modules, timestep: Array) -> Array:
    """Return the sinusoids of `timestep` (B,) that a U-Net computes for itself."""
    embedding: Array = modules["unet"].time_proj(torch.from_numpy(timestep)).numpy()
    return embedding


def _text_encoder(modules: Modules, inputs: Mapping[str, Array]) -> Array:
    context: Array = modules["text_encoder"](torch.from_numpy(inputs["tokens"]).long())[0].numpy()
    return context


def _unet(modules: Modules, inputs: Mapping[str, Array]) -> Array:
    """XL's is given the sizes of the image and a pooled vector beside the context."""
    added = {name: torch.from_numpy(inputs[name]) for name in ADDED if name in inputs}
    noise = modules["unet"](
        _nchw(inputs["latent"]),
        torch.from_numpy(inputs["timestep"]),
        torch.from_numpy(inputs["context"]),
        timestep_cond=torch.from_numpy(inputs[GUIDANCE]) if GUIDANCE in inputs else None,
        added_cond_kwargs=added or None,
    )
    return _nhwc(noise.sample)


def _vae_decoder(modules: Modules, inputs: Mapping[str, Array]) -> Array:
    vae = modules["vae"]
    return _nhwc(vae.decode(_nchw(inputs["latent"]) / vae.config.scaling_factor).sample)


def _vae_encoder(modules: Modules, inputs: Mapping[str, Array]) -> Array:
    encoded = modules["vae"].encode(_nchw(inputs["image"])).latent_dist
    return _nhwc(torch.cat([encoded.mean, encoded.logvar], 1))


OUTPUTS = {
    "text_encoder": _text_encoder,
    "unet": _unet,
    "vae_encoder": _vae_encoder,
    "vae_decoder": _vae_decoder,
}


def _nchw(x: Array) -> torch.Tensor:
    return torch.from_numpy(x).permute(0, 3, 1, 2)


def _nhwc(x: torch.Tensor) -> Array:
    values: Array = x.permute(0, 2, 3, 1).numpy()
    return values

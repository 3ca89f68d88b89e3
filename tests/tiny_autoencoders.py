"""Small tiny autoencoders with random weights, written by diffusers, and under their author's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.late import diffusers

WIDTHS = (16, 16, 16, 16)
NARROW: dict[str, Any] = {"encoder_block_out_channels": WIDTHS, "decoder_block_out_channels": WIDTHS}
"""Narrow, otherwise the public TAESD."""

SHALLOW: dict[str, Any] = {
    "encoder_block_out_channels": (24, 24),
    "decoder_block_out_channels": (24, 24),
    "num_encoder_blocks": (2, 1),
    "num_decoder_blocks": (1, 2),
}
"""Two levels, as many as `tests.checkpoints.TINY`'s own autoencoder has."""


def make(seed: int = 0, **settings: Any) -> diffusers.AutoencoderTiny:
    """Return an autoencoder whose weights are random, none of them 0."""
    torch.manual_seed(seed)
    made = diffusers.AutoencoderTiny(**settings)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return made.eval()


def write(folder: Path, seed: int = 0, **settings: Any) -> diffusers.AutoencoderTiny:
    """Write an autoencoder as diffusers does; returns it."""
    made = make(seed, **settings)
    made.save_pretrained(folder)
    return made


def original(vae: diffusers.AutoencoderTiny, half: str) -> dict[str, torch.Tensor]:
    """Return the tensors of "encoder" or "decoder" as the author names them: its clamp is layer 0."""
    prefix, clamp = f"{half}.layers.", 1 if half == "decoder" else 0
    named = {}
    for name, tensor in vae.state_dict().items():
        if name.startswith(prefix):
            number, _, rest = name.removeprefix(prefix).partition(".")
            named[f"{int(number) + clamp}.{rest}"] = tensor.contiguous()
    return named


def write_original(path: Path, vae: diffusers.AutoencoderTiny, half: str) -> Path:
    """Write one half as the author publishes it, .safetensors or .pth; returns `path`."""
    if path.suffix == ".safetensors":
        save_file(original(vae, half), path)
    else:
        torch.save(original(vae, half), path)
    return path

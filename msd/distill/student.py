"""Students: U-Nets that begin as their teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from diffusers import UNet2DConditionModel

SCALE_WIDTH = 256
"""The width of the scale's embedding, as in latent consistency models (2023, arXiv 2310.04378)."""


@dataclass(frozen=True)
class Student:
    """A U-Net and what it predicts: "epsilon" or "v_prediction"."""

    unet: Any
    prediction: str


def new_student(unet: Any, takes_scale: bool, gradient_checkpointing: bool) -> Any:
    """Return a U-Net in float32 that says what `unet` says, and learns.

    `takes_scale`: it has diffusers' `time_cond_proj_dim`, of which it makes nothing before it has learnt.
    """
    changes = {"time_cond_proj_dim": SCALE_WIDTH} if takes_scale else {}
    student = UNet2DConditionModel.from_config({**unet.config, **changes}).to(
        unet.device, memory_format=torch.channels_last
    )
    student.load_state_dict(unet.state_dict(), strict=not takes_scale)
    if takes_scale:
        torch.nn.init.zeros_(student.time_embedding.cond_proj.weight)
    if gradient_checkpointing:
        student.enable_gradient_checkpointing()
    return student.requires_grad_(True).train()

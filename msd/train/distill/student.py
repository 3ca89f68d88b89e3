"""Students: U-Nets that begin as their teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from msd.train.distill.settings import Training

SCALE_WIDTH = 256
"""The width of the scale's embedding, as in latent consistency models (2023, arXiv 2310.04378)."""


LORA_LAYERS = (
    "to_q",
    "to_k",
    "to_v",
    "to_out.0",
    "proj_in",
    "proj_out",
    "ff.net.0.proj",
    "ff.net.2",
    "conv1",
    "conv2",
    "conv_shortcut",
    "downsamplers.0.conv",
    "upsamplers.0.conv",
    "time_emb_proj",
)
"""The layers of diffusers' `train_lcm_distill_lora_sd_wds.py`."""


@dataclass(frozen=True)
class Student:
    """A U-Net and what it predicts: "epsilon" or "v_prediction"."""

    unet: Any
    prediction: str


def new_student(unet: Any, takes_scale: bool, training: Training) -> Any:
    """Return a U-Net in float32 that predicts what `unet` predicts, and learns.

    `takes_scale`: it has diffusers' `time_cond_proj_dim`, of which it makes nothing before it has learnt.
    With `training.lora`, only matrices of this rank learn (Hu et al. 2021, arXiv 2106.09685).
    """
    from diffusers import UNet2DConditionModel
    from peft import LoraConfig

    changes = {"time_cond_proj_dim": SCALE_WIDTH} if takes_scale else {}
    student = UNet2DConditionModel.from_config({**unet.config, **changes}).to(
        unet.device, memory_format=torch.channels_last
    )
    student.load_state_dict(
        unet.state_dict(), strict=unet.config.time_cond_proj_dim == student.config.time_cond_proj_dim
    )
    if takes_scale and unet.config.time_cond_proj_dim is None:
        torch.nn.init.zeros_(student.time_embedding.cond_proj.weight)
    if training.gradient_checkpointing:
        student.enable_gradient_checkpointing()
    if training.lora is None:
        return student.requires_grad_(True).train()
    student.requires_grad_(False)
    student.add_adapter(LoraConfig(r=training.lora, lora_alpha=training.lora, target_modules=[*LORA_LAYERS]))
    return student.train()

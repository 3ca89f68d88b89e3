"""Small random ControlNets, written by diffusers itself, and files of them in their authors' layout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.late import diffusers

OF_TINY = {"conditioning_embedding_out_channels": (6, 10)}
"""Of `tests.checkpoints.TINY`, with two pixels along the side of a latent cell."""

OF_SD15 = {"conditioning_embedding_out_channels": (8, 12, 16, 20)}
"""Of `tests.checkpoints.SD15` and `SD21`, with eight."""


def make(unet: diffusers.UNet2DConditionModel, seed: int, **changes: Any) -> diffusers.ControlNetModel:
    """Return a ControlNet of a U-Net with random weights, none of which is 0."""
    torch.manual_seed(seed)
    made = diffusers.ControlNetModel.from_unet(unet, load_weights_from_unet=False, **changes)
    return _trained(made)


def _trained(made: diffusers.ControlNetModel) -> diffusers.ControlNetModel:
    """Return a ControlNet with other random weights, as those of a new one are partly 0."""
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return made.eval()


def write(
    folder: Path, unet: diffusers.UNet2DConditionModel, seed: int = 1, **changes: Any
) -> diffusers.ControlNetModel:
    """Write a ControlNet of a U-Net into a folder; return it."""
    made = make(unet, seed, **changes)
    made.save_pretrained(folder)
    return made


PLAIN, ATTENDING = "DownBlock2D", "CrossAttnDownBlock2D"
SMALL: dict[str, dict[str, Any]] = {
    "a plain middle": {
        "down_block_types": [PLAIN, PLAIN, ATTENDING],
        "mid_block_type": "UNetMidBlock2D",
        "transformer_layers_per_block": [0, 0, 1],
    },
    "no attention": {
        "down_block_types": [PLAIN] * 3,
        "mid_block_type": "UNetMidBlock2D",
        "transformer_layers_per_block": 0,
    },
    "no layers in the middle": {"down_block_types": [PLAIN] * 3, "transformer_layers_per_block": [0] * 3},
    "no layers on a level": {
        "down_block_types": [PLAIN, ATTENDING, ATTENDING],
        "transformer_layers_per_block": [0, [0, 0], [1, 1]],
    },
}
"""What makes a ControlNet of three levels smaller, by its configuration."""


def write_small(folder: Path, unet: diffusers.UNet2DConditionModel, kind: str) -> diffusers.ControlNetModel:
    """Write one of the `SMALL` ControlNets; return it."""
    torch.manual_seed(3)
    usual = diffusers.ControlNetModel.from_unet(unet, load_weights_from_unet=False, **OF_TINY).config
    made = _trained(diffusers.ControlNetModel.from_config({**usual, **SMALL[kind]}))
    made.save_pretrained(folder)
    return made


def write_file(path: Path, controlnet: diffusers.ControlNetModel, prefix: str = "control_model.") -> Path:
    """Write a ControlNet in float16 into a file with its authors' names; return the path."""
    tensors = {
        prefix + authors_name(name, controlnet): tensor.half().contiguous()
        for name, tensor in controlnet.state_dict().items()
    }
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save({"state_dict": tensors}, path)
    return path


LAYERS = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}


def authors_name(name: str, controlnet: diffusers.ControlNetModel) -> str:
    """Return the authors' name of a tensor that has diffusers' `name`."""
    layers = controlnet.config["layers_per_block"]
    blocks = len(controlnet.controlnet_cond_embedding.blocks)
    rules: dict[str, Any] = {
        r"conv_in\.(.+)": lambda m: f"input_blocks.0.0.{m[1]}",
        r"time_embedding\.linear_(\d)\.(.+)": lambda m: f"time_embed.{2 * int(m[1]) - 2}.{m[2]}",
        r"add_embedding\.linear_(\d)\.(.+)": lambda m: f"label_emb.0.{2 * int(m[1]) - 2}.{m[2]}",
        r"controlnet_cond_embedding\.conv_in\.(.+)": lambda m: f"input_hint_block.0.{m[1]}",
        r"controlnet_cond_embedding\.blocks\.(\d)\.(.+)": (
            lambda m: f"input_hint_block.{2 * int(m[1]) + 2}.{m[2]}"
        ),
        r"controlnet_cond_embedding\.conv_out\.(.+)": lambda m: f"input_hint_block.{2 * blocks + 2}.{m[1]}",
        r"controlnet_down_blocks\.(\d+)\.(.+)": lambda m: f"zero_convs.{m[1]}.0.{m[2]}",
        r"controlnet_mid_block\.(.+)": lambda m: f"middle_block_out.0.{m[1]}",
        r"mid_block\.resnets\.(\d)\.(\w+)\.(.+)": (
            lambda m: f"middle_block.{2 * int(m[1])}.{LAYERS[m[2]]}.{m[3]}"
        ),
        r"mid_block\.attentions\.0\.(.+)": lambda m: f"middle_block.1.{m[1]}",
        r"down_blocks\.(\d)\.resnets\.(\d)\.(\w+)\.(.+)": (
            lambda m: f"input_blocks.{number(m, layers)}.0.{LAYERS[m[3]]}.{m[4]}"
        ),
        r"down_blocks\.(\d)\.attentions\.(\d)\.(.+)": (
            lambda m: f"input_blocks.{number(m, layers)}.1.{m[3]}"
        ),
        r"down_blocks\.(\d)\.downsamplers\.0\.conv\.(.+)": (
            lambda m: f"input_blocks.{(layers + 1) * (int(m[1]) + 1)}.0.op.{m[2]}"
        ),
    }
    (found,) = [rule(match) for pattern, rule in rules.items() if (match := re.fullmatch(pattern, name))]
    return str(found)


def number(match: re.Match[str], layers: int) -> int:
    """Return the number of the input block of a layer of a down block."""
    return (layers + 1) * int(match[1]) + int(match[2]) + 1

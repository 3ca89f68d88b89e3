"""What a .yaml beside a ControlNet's file says: ControlNet's authors publish one with each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from msd.conversion.sources.compvis.original_config import read_model
from msd.conversion.sources.compvis.stated import find_value
from msd.conversion.sources.compvis.stated_structure import read_control
from msd.errors import BadCheckpoint
from msd.models.config import ATTENTION_DOWN, SIZES
from msd.models.control_config import ControlNetConfig

POOLED = ("_shuffle", "_shuffle_fp16")
"""How names of files end whose residuals are averaged, by which other programs know them (ComfyUI's
comfy/controlnet.py)."""

ONLY_FALSE = ("global_average_pooling", "only_mid_control")
"""Of cldm/cldm.py, ControlLDM: what becomes of the residuals."""


def as_stated(path: Path, config: ControlNetConfig) -> tuple[ControlNetConfig, tuple[str, ...]]:
    """Return the configuration of the file at `path`, by its shapes, with the heads of a .yaml beside it.

    And a sentence where they are not the U-Net's. Raises BadCheckpoint for a .yaml that contradicts the
    weights, naming it, and for a ControlNet whose residuals are averaged or left out.
    """
    beside = path.with_suffix(".yaml")
    said = read_model(beside)
    for key in ONLY_FALSE:
        if find_value(said, key) is True:
            raise BadCheckpoint(f"{beside} says {key}: true, and only false is supported")
    if path.stem.endswith(POOLED):
        raise BadCheckpoint(
            "its residuals are averaged, as its name says to other programs, which is not supported"
        )
    stated = read_control(beside, said)
    settings, of_heads = stated.with_heads(_settings(config))
    stated.require_same(settings, None)
    return (replace(config, heads=tuple(settings["attention_head_dim"])) if of_heads else config), of_heads


def _settings(config: ControlNetConfig) -> dict[str, Any]:
    """Return a configuration in diffusers' words."""
    heads, added = config.heads, config.added
    return {
        "attention_head_dim": heads[0] if len({*heads}) == 1 else [*heads],
        "block_out_channels": config.channels,
        "cross_attention_dim": config.context_width,
        "down_block_types": [
            ATTENTION_DOWN if attends else "DownBlock2D" for attends in config.down_attention
        ],
        "in_channels": config.in_channels,
        "layers_per_block": config.resnets,
        "out_channels": config.out_channels,
        "transformer_layers_per_block": config.transformers,
        "use_linear_projection": config.linear_projection,
        **({"projection_class_embeddings_input_dim": added.pooled + SIZES * added.size} if added else {}),
    }

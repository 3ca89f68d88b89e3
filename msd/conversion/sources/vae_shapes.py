"""The settings of an AutoencoderKL in diffusers' layout, from the shapes of its tensors.

A file without a config.json does not say how many groups its norms have, and by which factor latents are
scaled: the groups are the public ones, and the factor is the family's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msd.conversion.sources.compvis.part import NetworkTensors
from msd.graph.ir.weights import Weights


def settings_by_shapes(where: str, tensors: Mapping[str, Weights], scaling_factor: float) -> dict[str, Any]:
    """Return the settings in diffusers' config.json of `tensors`, which have diffusers' names.

    Raises BadCheckpoint, naming the file `where`, for a decoder that lacks tensors.
    """
    part = NetworkTensors(where, "", tensors)
    levels = part.count("decoder.up_blocks")
    part.shape("decoder.up_blocks.0.resnets.0.conv1.weight", 4)
    blocks = [f"decoder.up_blocks.{level}" for level in reversed(range(levels))]
    resnets = part.same("depths of the VAE", (part.count(f"{block}.resnets") for block in blocks))
    return {
        "_class_name": "AutoencoderKL",
        "in_channels": part.shape("encoder.conv_in.weight", 4)[1] if part.has("encoder.conv_in") else 3,
        "latent_channels": part.shape("decoder.conv_in.weight", 4)[1],
        "out_channels": part.shape("decoder.conv_out.weight", 4)[0],
        "block_out_channels": [part.shape(f"{block}.resnets.0.conv1.weight", 4)[0] for block in blocks],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": resnets - 1,
        "scaling_factor": scaling_factor,
        "use_quant_conv": part.has("quant_conv"),
        "use_post_quant_conv": part.has("post_quant_conv"),
        "mid_block_add_attention": part.has("decoder.mid_block.attentions"),
    }

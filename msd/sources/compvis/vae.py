"""The decoder of CompVis's autoencoder: level 0 has the highest resolution, attention is 1x1 convolutions."""

from __future__ import annotations

from typing import Any

from msd.ir.weights import Weights
from msd.sources.compvis.part import Part

ENDS = {
    "decoder.conv_in": "decoder.conv_in",
    "decoder.norm_out": "decoder.conv_norm_out",
    "decoder.conv_out": "decoder.conv_out",
    "post_quant_conv": "post_quant_conv",
}
MIDDLE = {
    "decoder.mid.block_1": "decoder.mid_block.resnets.0",
    "decoder.mid.block_2": "decoder.mid_block.resnets.1",
}
RESNET = {name: name for name in ("norm1", "conv1", "norm2", "conv2")} | {"nin_shortcut": "conv_shortcut"}
ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}


def vae_settings(part: Part) -> dict[str, Any]:
    """Return the settings in diffusers' config.json, with the public scaling factor."""
    levels = part.count("decoder.up")
    part.shape("decoder.up.0.block.0.conv1.weight", 4)
    resnets = part.same("depths of the VAE", (part.count(f"decoder.up.{i}.block") for i in range(levels)))
    return {
        "latent_channels": part.shape("decoder.conv_in.weight", 4)[1],
        "out_channels": part.shape("decoder.conv_out.weight", 4)[0],
        "block_out_channels": [
            part.shape(f"decoder.up.{i}.block.0.conv1.weight", 4)[0] for i in range(levels)
        ],
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": resnets - 1,
        "scaling_factor": 0.18215,
        "use_post_quant_conv": part.has("post_quant_conv"),
        "mid_block_add_attention": part.has("decoder.mid.attn_1"),
    }


def vae_tensors(part: Part) -> dict[str, Weights]:
    """Return the decoder's tensors by diffusers' names; raises BadCheckpoint for an unknown tensor.

    Omits the encoder.
    """
    places, tensors = _places(part), {}
    for name, tensor in part.tensors.items():
        if name.startswith(("decoder.", "post_quant_conv.")):
            layer, _, last = name.rpartition(".")
            if layer not in places:
                raise part.unknown(name)
            tensors[f"{places[layer]}.{last}"] = (
                _as_linear(tensor) if ".attentions." in places[layer] else tensor
            )
    return tensors


def _as_linear(tensor: Weights) -> Weights:
    return tensor.reshape(tensor.shape[:2]) if tensor.shape[2:] == (1, 1) else tensor


def _places(part: Part) -> dict[str, str]:
    """Return each layer's name in diffusers."""
    levels = part.count("decoder.up")
    resnets = dict(MIDDLE)
    places = dict(ENDS)
    for level in range(levels):
        block = f"decoder.up_blocks.{levels - 1 - level}"
        for index in range(part.count(f"decoder.up.{level}.block")):
            resnets[f"decoder.up.{level}.block.{index}"] = f"{block}.resnets.{index}"
        if level:
            places[f"decoder.up.{level}.upsample.conv"] = f"{block}.upsamplers.0.conv"
    for old, new in resnets.items():
        places |= {f"{old}.{layer}": f"{new}.{name}" for layer, name in RESNET.items()}
    attention = "decoder.mid_block.attentions.0"
    return places | {
        f"decoder.mid.attn_1.{layer}": f"{attention}.{name}" for layer, name in ATTENTION.items()
    }

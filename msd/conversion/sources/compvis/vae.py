"""CompVis's autoencoder: level 0 has the highest resolution, attention is 1x1 convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msd.conversion.sources.compvis.part import NetworkTensors
from msd.graph.ir.weights import Weights

ENDS = {"conv_in": "conv_in", "norm_out": "conv_norm_out", "conv_out": "conv_out"}
MIDDLE = {"mid.block_1": "mid_block.resnets.0", "mid.block_2": "mid_block.resnets.1"}
RESNET = {name: name for name in ("norm1", "conv1", "norm2", "conv2")} | {"nin_shortcut": "conv_shortcut"}
ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}


def vae_settings(part: NetworkTensors, scaling_factor: float) -> dict[str, Any]:
    """Return the settings in diffusers' config.json.

    The decoder decides all that it shares with the encoder, which a file may lack.
    """
    levels = part.count("decoder.up")
    part.shape("decoder.up.0.block.0.conv1.weight", 4)
    resnets = part.same("depths of the VAE", (part.count(f"decoder.up.{i}.block") for i in range(levels)))
    return {
        "in_channels": part.shape("encoder.conv_in.weight", 4)[1] if part.has("encoder.conv_in") else 3,
        "latent_channels": part.shape("decoder.conv_in.weight", 4)[1],
        "out_channels": part.shape("decoder.conv_out.weight", 4)[0],
        "block_out_channels": [
            part.shape(f"decoder.up.{i}.block.0.conv1.weight", 4)[0] for i in range(levels)
        ],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": resnets - 1,
        "scaling_factor": scaling_factor,
        "use_quant_conv": part.has("quant_conv"),
        "use_post_quant_conv": part.has("post_quant_conv"),
        "mid_block_add_attention": part.has("decoder.mid.attn_1"),
    }


def encoder_tensors(part: NetworkTensors) -> dict[str, Weights]:
    """Return the encoder's tensors by diffusers' names, none where the file has no encoder.

    Raises BadCheckpoint for an unknown tensor.
    """
    blocks = {f"down.{level}": f"down_blocks.{level}" for level in range(part.count("encoder.down"))}
    all_but_last = list(blocks.items())[:-1]
    smaller = {f"{old}.downsample.conv": f"{new}.downsamplers.0.conv" for old, new in all_but_last}
    return _tensors(part, "encoder", "quant_conv", _places(part, "encoder", blocks) | smaller)


def decoder_tensors(part: NetworkTensors) -> dict[str, Weights]:
    """Return the decoder's tensors by diffusers' names; raises BadCheckpoint for an unknown tensor."""
    levels = part.count("decoder.up")
    blocks = {f"up.{level}": f"up_blocks.{levels - 1 - level}" for level in range(levels)}
    all_but_first = list(blocks.items())[1:]
    larger = {f"{old}.upsample.conv": f"{new}.upsamplers.0.conv" for old, new in all_but_first}
    return _tensors(part, "decoder", "post_quant_conv", _places(part, "decoder", blocks) | larger)


def _tensors(part: NetworkTensors, half: str, alone: str, places: Mapping[str, str]) -> dict[str, Weights]:
    """Return the tensors of a half by diffusers' names, and those of the layer `alone` outside of it.

    `places` are the names of the half's layers in diffusers.
    """
    renamed = {alone: alone} | {f"{half}.{old}": f"{half}.{new}" for old, new in places.items()}
    tensors = {}
    for name, tensor in part.tensors.items():
        if name.startswith((f"{half}.", f"{alone}.")):
            layer, _, last = name.rpartition(".")
            if layer not in renamed:
                raise part.unknown(name)
            attends = ".attentions." in renamed[layer]
            tensors[f"{renamed[layer]}.{last}"] = _as_linear(tensor) if attends else tensor
    return tensors


def _as_linear(tensor: Weights) -> Weights:
    return tensor.reshape(tensor.shape[:2]) if tensor.shape[2:] == (1, 1) else tensor


def _places(part: NetworkTensors, half: str, blocks: Mapping[str, str]) -> dict[str, str]:
    """Return each layer's name in diffusers; `blocks` are those of the levels."""
    places, resnets = dict(ENDS), dict(MIDDLE)
    for old, new in blocks.items():
        for index in range(part.count(f"{half}.{old}.block")):
            resnets[f"{old}.block.{index}"] = f"{new}.resnets.{index}"
    for old, new in resnets.items():
        places |= {f"{old}.{layer}": f"{new}.{name}" for layer, name in RESNET.items()}
    return places | {f"mid.attn_1.{old}": f"mid_block.attentions.0.{new}" for old, new in ATTENTION.items()}

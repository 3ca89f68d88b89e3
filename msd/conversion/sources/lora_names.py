"""The names of a checkpoint's layers in LoRA files, and of the matrices for each layer.

Five writers have five conventions; `down` applies first, then `up`; `lora_A` and `lora_B` are the same two:

    lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight              kohya; also .alpha
    lora_unet_input_blocks_1_1_proj_in.lora_down.weight                        kohya, CompVis's names
    unet.….attn1.processor.to_q_lora.down.weight, ….to_q.lora.down.weight      diffusers until 0.20
    text_encoder.….to_q_lora.down.weight, ….q_proj.lora_linear_layer.down.weight
    unet.….attn1.to_q.lora_A.weight, ….to_q.lora_A.default.weight              diffusers since
    base_model.model.….attn1.to_q.lora_A.weight                                peft, LCM-LoRA's scripts

All possible names of the checkpoint's layers are listed and looked up, so that an underscore is never
mistaken for a dot (diffusers: loaders/lora_conversion_utils.py, utils/state_dict_utils.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadCheckpoint
from msd.models.config import UNetConfig

PARTS = {
    "down": re.compile(
        r"\.lora_down\.weight\Z|\.lora_A(\.[^.]+)?\.weight\Z|(_lora|\.lora|\.lora_linear_layer)\.down\.weight\Z"
    ),
    "up": re.compile(
        r"\.lora_up\.weight\Z|\.lora_B(\.[^.]+)?\.weight\Z|(_lora|\.lora|\.lora_linear_layer)\.up\.weight\Z"
    ),
    "alpha": re.compile(r"\.alpha\Z"),
}

REFUSED = {
    "is for Stable Diffusion XL, which has two text encoders": r"\Alora_te[12]_|\Atext_encoder_2\.",
    "is a ControlNet LoRA": r"\Alora_controlnet\Z|\Alllite_|(\A|\.)(zero_convs|input_hint_block)\.",
    "is a LyCORIS adapter": r"\.(hada_|lokr_|b?oft_|on_input|lora_mid\.|[ab][12]\.weight\Z)",
    "is a DoRA, which rescales weights too": r"\.(dora_scale|lora_magnitude_vector)",
    "holds differences of whole tensors": r"\.(diff|diff_b|set_weight|w_norm|b_norm)\Z",
    "changes biases": r"\.lora_(A|B|up|down)(\.[^.]+)?\.bias\Z",
    "holds textual-inversion embeddings": r"\Abundle_emb\.",
}
"""A description of each other kind of file, and a pattern of the names that identify it."""

OLD_TEXT_ENCODER = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "out_proj": "to_out"}
COMPVIS_RESNET = {
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}


PEFT = "base_model.model."
"""What peft puts before the name of every layer; diffusers puts the component before that."""


@dataclass(frozen=True)
class Layer:
    """A layer whose weight a LoRA may change: its component, and its name without ".weight"."""

    component: str
    name: str


def refuse_others(path: Path, keys: Iterable[str]) -> None:
    """Raise BadCheckpoint, naming the tensor, if `keys` belong to anything but plain LoRA."""
    keys = list(keys)
    for what, pattern in REFUSED.items():
        for key in keys:
            if re.search(pattern, key):
                raise BadCheckpoint(
                    f"{path} {what}: it has {key}; "
                    "only plain LoRA for the U-Net and one text encoder is supported"
                )


def split(key: str) -> tuple[str, str] | None:
    """Return a tensor's layer, by its name in the file, and "down", "up" or "alpha"; else None."""
    for part, pattern in PARTS.items():
        if match := pattern.search(key):
            return key[: match.start()], part
    return None


def layer_names(checkpoint: Checkpoint) -> dict[str, Layer]:
    """Return every layer that a LoRA may change, by each of its names in files."""
    blocks = compvis_blocks(checkpoint.configs["unet"])
    names: dict[str, Layer] = {}
    for layer in _layers(checkpoint, "unet"):
        names |= dict.fromkeys(_unet_names(layer, compvis_name(layer, blocks)), Layer("unet", layer))
    for layer in _layers(checkpoint, "text_encoder"):
        names |= dict.fromkeys(_text_encoder_names(layer), Layer("text_encoder", layer))
    return names


def _layers(checkpoint: Checkpoint, component: str) -> Iterator[str]:
    """Yield the linear and convolutional layers, but no norms or embeddings."""
    for name, weights in checkpoint.weights[component].items():
        layer, _, last = name.rpartition(".")
        if last == "weight" and len(weights.shape) in (2, 4) and not layer.startswith("embeddings."):
            yield layer


def _unet_names(layer: str, theirs: str) -> Iterator[str]:
    dotted = {layer}
    attention, dot, projection = layer.rpartition(".to_")
    if dot:
        old = f"to_{projection.removesuffix('.0')}"
        dotted |= {f"{attention}.{old}", f"{attention}.processor.{old}"}
    for name in dotted:
        yield from (name, f"unet.{name}", f"{PEFT}{name}", f"unet.{PEFT}{name}")
    for name in (layer, theirs):
        yield f"lora_unet_{name.replace('.', '_')}"


def _text_encoder_names(layer: str) -> Iterator[str]:
    block, _, last = layer.rpartition(".")
    for root in ("", "text_model."):
        yield f"lora_te_{(root + layer).replace('.', '_')}"
        for projection in {last, OLD_TEXT_ENCODER.get(last, last)}:
            yield f"text_encoder.{root}{block}.{projection}"
        yield from (f"{PEFT}{root}{layer}", f"text_encoder.{PEFT}{root}{layer}")


def compvis_name(layer: str, blocks: dict[str, str]) -> str:
    """Return a layer's name in CompVis's code, given the names of the `blocks` there."""
    for block, theirs in blocks.items():
        if layer == block:
            return theirs
        if layer.startswith(f"{block}."):
            rest = layer.removeprefix(f"{block}.")
            return f"{theirs}.{COMPVIS_RESNET.get(rest, rest)}"
    return layer


def compvis_blocks(config: UNetConfig) -> dict[str, str]:
    """Return the name of each block in CompVis's code (openaimodel.py), by its name in diffusers."""
    names = {
        "conv_in": "input_blocks.0.0",
        "time_embedding.linear_1": "time_embed.0",
        "time_embedding.linear_2": "time_embed.2",
        "mid_block.resnets.0": "middle_block.0",
        "mid_block.attentions.0": "middle_block.1",
        "mid_block.resnets.1": "middle_block.2",
        "conv_out": "out.2",
    }
    place = 1
    for level, count in enumerate(config.resnets):
        for i in range(count):
            names[f"down_blocks.{level}.resnets.{i}"] = f"input_blocks.{place}.0"
            names[f"down_blocks.{level}.attentions.{i}"] = f"input_blocks.{place}.1"
            place += 1
        names[f"down_blocks.{level}.downsamplers.0.conv"] = f"input_blocks.{place}.0.op"
        place += 1
    place = 0
    for block, level in enumerate(reversed(range(len(config.resnets)))):
        for i in range(config.resnets[level] + 1):
            names[f"up_blocks.{block}.resnets.{i}"] = f"output_blocks.{place}.0"
            names[f"up_blocks.{block}.attentions.{i}"] = f"output_blocks.{place}.1"
            place += 1
        after = 2 if config.up_attention[level] else 1
        names[f"up_blocks.{block}.upsamplers.0.conv"] = f"output_blocks.{place - 1}.{after}.conv"
    return names

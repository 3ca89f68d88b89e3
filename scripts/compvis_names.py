"""CompVis' and Stability AI's names of diffusers' tensors, the inverse of msd/conversion/sources/compvis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class CompVisTensor:
    """A tensor of `shape`: the `parts` of "text_encoder", "unet" or "vae", one after another."""

    name: str
    shape: Shape
    component: str
    parts: tuple[str, ...]


UNET_ENDS = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
}
UNET_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
VAE_LAYERS = {"conv_norm_out": "norm_out", "conv_shortcut": "nin_shortcut"}
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
OPEN_CLIP = {
    "embeddings.token_embedding.weight": "token_embedding.weight",
    "embeddings.position_embedding.weight": "positional_embedding",
    "final_layer_norm.weight": "ln_final.weight",
    "final_layer_norm.bias": "ln_final.bias",
}
OPEN_CLIP_LAYER = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "self_attn.out_proj": "attn.out_proj",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}


def unet(shapes: Shapes, resnets: Iterable[int]) -> list[CompVisTensor]:
    """Return the U-Net's tensors; `resnets` are those of each level on the way down."""
    places = _unet_places(tuple(resnets), shapes)
    return [
        CompVisTensor(f"model.diffusion_model.{_unet_name(name, places)}", shape, "unet", (name,))
        for name, shape in shapes.items()
    ]


def vae(shapes: Shapes, levels: int) -> list[CompVisTensor]:
    """Return the autoencoder's tensors, including the encoder's."""
    made = []
    for name, shape in shapes.items():
        if ".attentions.0.to_" in name and len(shape) == 2:
            shape = (*shape, 1, 1)
        made.append(CompVisTensor(f"first_stage_model.{_vae_name(name, levels)}", shape, "vae", (name,)))
    return made


def clip(shapes: Shapes) -> list[CompVisTensor]:
    """Return Stable Diffusion 1.x's text encoder."""
    prefix = "cond_stage_model.transformer.text_model."
    return [CompVisTensor(prefix + name, shape, "text_encoder", (name,)) for name, shape in shapes.items()]


def open_clip(shapes: Shapes) -> list[CompVisTensor]:
    """Return Stable Diffusion 2.x's text encoder: queries, keys and values are one tensor."""
    width = shapes["final_layer_norm.weight"][0]
    made = [
        CompVisTensor("text_projection", (width, width), "text_encoder", ("text_projection",)),
        CompVisTensor("logit_scale", (), "text_encoder", ("logit_scale",)),
    ]
    for name, shape in shapes.items():
        if name in OPEN_CLIP:
            made.append(CompVisTensor(OPEN_CLIP[name], shape, "text_encoder", (name,)))
        elif ".k_proj." not in name and ".v_proj." not in name:
            made.append(_open_clip_layer(name, shape))
    return [CompVisTensor(f"cond_stage_model.model.{t.name}", t.shape, t.component, t.parts) for t in made]


def _open_clip_layer(name: str, shape: Shape) -> CompVisTensor:
    number, _, inside = name.removeprefix("encoder.layers.").partition(".")
    layer, _, last = inside.rpartition(".")
    block = f"transformer.resblocks.{number}"
    if layer != "self_attn.q_proj":
        return CompVisTensor(f"{block}.{OPEN_CLIP_LAYER[layer]}.{last}", shape, "text_encoder", (name,))
    parts = tuple(name.replace(".q_proj.", f".{letter}_proj.") for letter in "qkv")
    return CompVisTensor(f"{block}.attn.in_proj_{last}", (3 * shape[0], *shape[1:]), "text_encoder", parts)


def _unet_places(resnets: tuple[int, ...], shapes: Shapes) -> dict[str, str]:
    places, number = dict(UNET_ENDS), 1
    for level, count in enumerate(resnets):
        for index in range(count):
            places[f"down_blocks.{level}.resnets.{index}"] = f"input_blocks.{number}.0"
            places[f"down_blocks.{level}.attentions.{index}"] = f"input_blocks.{number}.1"
            number += 1
        places[f"down_blocks.{level}.downsamplers.0.conv"] = f"input_blocks.{number}.0.op"
        number += 1
    number = 0
    for level, count in enumerate(reversed(resnets)):
        attends = f"up_blocks.{level}.attentions.0.norm.weight" in shapes
        for index in range(count + 1):
            places[f"up_blocks.{level}.resnets.{index}"] = f"output_blocks.{number}.0"
            places[f"up_blocks.{level}.attentions.{index}"] = f"output_blocks.{number}.1"
            number += 1
        places[f"up_blocks.{level}.upsamplers.0"] = f"output_blocks.{number - 1}.{2 if attends else 1}"
    return places


def _unet_name(name: str, places: Mapping[str, str]) -> str:
    place = next(p for p in places if name.startswith(f"{p}."))
    layer, _, last = name.removeprefix(f"{place}.").rpartition(".")
    layer = UNET_RESNET[layer] if ".resnets." in place else layer
    return ".".join(word for word in (places[place], layer, last) if word)


def _vae_name(name: str, levels: int) -> str:
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
    name = re.sub(r"down_blocks\.(\d)\.resnets", r"down.\1.block", name)
    name = re.sub(r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample", name)
    name = re.sub(r"up_blocks\.(\d)\.resnets", lambda m: f"up.{levels - 1 - int(m[1])}.block", name)
    name = re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda m: f"up.{levels - 1 - int(m[1])}.upsample", name)
    before, attention, layer = name.partition("mid_block.attentions.0.")
    if attention:
        layer, _, last = layer.rpartition(".")
        return f"{before}mid.attn_1.{VAE_ATTENTION[layer]}.{last}"
    *start, layer, last = name.split(".")
    return ".".join((*start, VAE_LAYERS.get(layer, layer), last))

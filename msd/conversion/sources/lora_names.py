"""The names of a checkpoint's layers in LoRA files.

Each writer has its conventions; `down` applies first, then `up`; `lora_A` and `lora_B` are the same two:

    lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight              kohya; also .alpha
    lora_unet_input_blocks_1_1_proj_in.lora_down.weight                        kohya, CompVis's names
    unet.….attn1.processor.to_q_lora.down.weight, ….to_q.lora.down.weight      diffusers until 0.20
    text_encoder.….to_q_lora.down.weight, ….q_proj.lora_linear_layer.down.weight
    unet.….attn1.to_q.lora_A.weight, ….to_q.lora_A.default.weight              diffusers since
    base_model.model.….attn1.to_q.lora_A.weight                                peft, LCM-LoRA's scripts
    unet.input_blocks.1.1.….to_q.lora_down.weight, clip_l.text_model.…         OneTrainer, CompVis's names
    lora_unet.….attn1.to_q.lora_down.weight, lora_te.text_model.…              OneTrainer
    diffusion_model.input_blocks.1.1.….to_q.lora_up.weight                     ComfyUI
    lycoris_down_blocks_0_….hada_w1_a                                          LyCORIS alone
    lora_te1_text_model_…, text_encoder_2.…, clip_g.…                          Stable Diffusion XL's encoders

Some write `lora_te1_` for the one encoder of Stable Diffusion 1.x and 2.x too.

All possible names of the checkpoint's layers are listed and looked up, so that an underscore is never
mistaken for a dot (diffusers: loaders/lora_conversion_utils.py, utils/state_dict_utils.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msd.conversion.sources.checkpoint import Checkpoint
from msd.models.config import UNetConfig
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL

OLD_TEXT_ENCODER = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "out_proj": "to_out"}
COMPVIS_RESNET = {
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
    "norm1": "in_layers.0",
    "norm2": "out_layers.0",
}


PEFT = "base_model.model."
"""What peft puts before the name of every layer; diffusers puts the component before that."""


UNET_PREFIXES = (
    *("", "unet.", PEFT, f"unet.{PEFT}", f"{PEFT}unet.", "lora_unet."),
    *("diffusion_model.", "model.diffusion_model."),
)
TEXT_PREFIXES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    STABLE_DIFFUSION.name: {
        "text_encoder": (
            *("text_encoder.", PEFT, f"text_encoder.{PEFT}", "lora_te.", "lora_te1.", "clip_l."),
            *("clip_l.transformer.", "te.", "te1.", "text_encoders.clip_l.transformer."),
            "cond_stage_model.transformer.",
        ),
    },
    STABLE_DIFFUSION_XL.name: {
        "text_encoder": (
            *("text_encoder.", f"text_encoder.{PEFT}", "lora_te1.", "clip_l.", "clip_l.transformer."),
            *("te1.", "text_encoders.clip_l.transformer.", "conditioner.embedders.0.transformer."),
        ),
        "text_encoder_2": (
            *("text_encoder_2.", f"text_encoder_2.{PEFT}", "lora_te2.", "clip_g.", "clip_g.transformer."),
            *("te2.", "text_encoders.clip_g.transformer."),
        ),
    },
}
"""What stands before the names of a text encoder's layers, by family and component."""

KOHYA: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    STABLE_DIFFUSION.name: {"text_encoder": ("lora_te_", "lora_te1_")},
    STABLE_DIFFUSION_XL.name: {"text_encoder": ("lora_te1_",), "text_encoder_2": ("lora_te2_",)},
}
"""The same before names with underscores."""


@dataclass(frozen=True)
class Layer:
    """A layer whose weight a LoRA may change: its component, and its name without ".weight"."""

    component: str
    name: str


def layer_names(checkpoint: Checkpoint) -> dict[str, Layer]:
    """Return every layer that a LoRA may change, by each of its names in files."""
    blocks = compvis_blocks(checkpoint.configs["unet"])
    names: dict[str, Layer] = {}
    for layer in _layers(checkpoint, "unet"):
        names |= dict.fromkeys(_unet_names(layer, compvis_name(layer, blocks)), Layer("unet", layer))
    for encoder, prefixes in TEXT_PREFIXES[checkpoint.family.name].items():
        underscored = KOHYA[checkpoint.family.name][encoder]
        for layer in _layers(checkpoint, encoder):
            found = _text_encoder_names(layer, encoder, prefixes, underscored)
            names |= dict.fromkeys(found, Layer(encoder, layer))
    return names


def _layers(checkpoint: Checkpoint, component: str) -> Iterator[str]:
    """Yield the linear layers, the convolutions and the norms, but no embeddings."""
    for name, weights in checkpoint.weights[component].items():
        layer, _, last = name.rpartition(".")
        if last == "weight" and len(weights.shape) in (1, 2, 4) and not layer.startswith("embeddings."):
            yield layer


def _unet_names(layer: str, theirs: str) -> Iterator[str]:
    dotted = {layer, theirs}
    attention, dot, projection = layer.rpartition(".to_")
    if dot:
        old = f"to_{projection.removesuffix('.0')}"
        dotted |= {f"{attention}.{old}", f"{attention}.processor.{old}"}
    for name in dotted:
        yield from (prefix + name for prefix in UNET_PREFIXES)
    for name in (layer, theirs):
        underscored = name.replace(".", "_")
        yield from (f"lora_unet_{underscored}", f"lycoris_{underscored}")


def _text_encoder_names(
    layer: str, encoder: str, prefixes: Iterable[str], underscored: Iterable[str]
) -> Iterator[str]:
    block, _, last = layer.rpartition(".")
    for root in ("", "text_model."):
        yield from (f"{prefix}{(root + layer).replace('.', '_')}" for prefix in underscored)
        for projection in {last, OLD_TEXT_ENCODER.get(last, last)}:
            yield f"{encoder}.{root}{block}.{projection}"
        yield from (f"{prefix}{root}{layer}" for prefix in prefixes)


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
        "add_embedding.linear_1": "label_emb.0.0",
        "add_embedding.linear_2": "label_emb.0.2",
        "mid_block.resnets.0": "middle_block.0",
        "mid_block.attentions.0": "middle_block.1",
        "mid_block.resnets.1": "middle_block.2",
        "conv_norm_out": "out.0",
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

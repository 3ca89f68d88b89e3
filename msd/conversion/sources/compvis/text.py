"""The text encoders: CLIP as transformers names it (1.x, XL's first), and OpenCLIP (2.x, XL's second)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from msd.conversion.sources.clip_tokenizer import VOCABULARY
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.two_names import by_new_names
from msd.files.wording import counted
from msd.graph.ir.weights import Weights
from msd.models.sdxl_text_config import OLD_END

HEAD_WIDTH = 64
OPEN_WIDTH = 1024
"""The width of OpenCLIP's ViT-H, the text encoder of Stable Diffusion 2.x."""

USED_LAYERS, OPEN_LAYERS = 23, 24
"""Stable Diffusion 2.x uses OpenCLIP's penultimate layer; files also contain the unused last one."""

OURS = "the text encoder's "
"""The prefix, in messages, of tensors under their new names."""

EMBEDDINGS = ("embeddings.token_embedding.weight", "embeddings.position_embedding.weight")
CLIP_PREFIXES = (
    "embeddings.token_embedding.",
    "embeddings.position_embedding.",
    "encoder.",
    "final_layer_norm.",
)
OPEN_CLIP = {
    "token_embedding.weight": EMBEDDINGS[0],
    "positional_embedding": EMBEDDINGS[1],
    "ln_final.weight": "final_layer_norm.weight",
    "ln_final.bias": "final_layer_norm.bias",
}
LAYER = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
BLOCKS = "transformer.resblocks"
OPEN_PROJECTION, PROJECTION = "text_projection", "text_projection.weight"
"""The projection's names in OpenCLIP and in transformers."""


def text_part(part: NetworkTensors) -> tuple[NetworkTensors, bool]:
    """Return the text encoder under its current names in transformers, and whether it is that of 2.x.

    Raises BadCheckpoint if it is neither CLIP nor OpenCLIP.
    """
    if part.has(f"model.{BLOCKS}"):
        whole = part.inside("model.")
        if whole.count(BLOCKS) > OPEN_LAYERS:
            raise part.wrong(
                f"has an OpenCLIP of more than the {OPEN_LAYERS} layers of Stable Diffusion 2.x's"
            )
        return NetworkTensors(part.where, OURS, dict(_open_clip(whole, {USED_LAYERS}))), True
    tensors = by_new_names(part.where, _clip(part))
    if EMBEDDINGS[0] not in tensors:
        raise part.wrong("has a text encoder that is neither CLIP nor OpenCLIP, and only these are supported")
    renamed = NetworkTensors(part.where, OURS, tensors)
    return renamed, renamed.shape(EMBEDDINGS[0], 2)[1] == OPEN_WIDTH


def text_settings(part: NetworkTensors, second: bool) -> dict[str, Any]:
    """Return the settings in transformers' config.json; `second`: Stable Diffusion 2.x."""
    vocabulary, width = part.shape(EMBEDDINGS[0], 2)
    if vocabulary < VOCABULARY:
        raise part.wrong(
            f"has a text encoder with {counted(vocabulary, 'token')}, but CLIP has {VOCABULARY}, and a "
            "single file has no tokenizer of its own"
        )
    if width % HEAD_WIDTH:
        raise part.wrong(f"has a text encoder {width} wide; a multiple of {HEAD_WIDTH} was expected")
    return {
        "vocab_size": vocabulary,
        "max_position_embeddings": part.shape(EMBEDDINGS[1], 2)[0],
        "hidden_size": width,
        "intermediate_size": part.shape("encoder.layers.0.mlp.fc1.weight", 2)[0],
        "num_hidden_layers": part.count("encoder.layers"),
        "num_attention_heads": width // HEAD_WIDTH,
        "hidden_act": "gelu" if second else "quick_gelu",
    }


def _clip(part: NetworkTensors) -> Iterator[tuple[str, str, Weights]]:
    """Yield each tensor's name in the file, its current name, and the tensor."""
    for name, tensor in part.tensors.items():
        new = name.removeprefix("transformer.").removeprefix("text_model.")
        if new.startswith(CLIP_PREFIXES):
            yield f"{part.prefix}{name}", new, tensor


def projected_text(part: NetworkTensors) -> tuple[NetworkTensors, dict[str, Any]]:
    """Return XL's second text encoder under its current names in transformers, and its settings there.

    The end token is that of Stability AI's config.json, which diffusers gives such a file too: with a textual
    inversion, whose ids are the largest, it is its last token that is pooled.
    Raises BadCheckpoint if it is no OpenCLIP with a projection.
    """
    whole = part.inside("model.")
    projection = _projection(whole)
    tensors = {**dict(_open_clip(whole, ())), PROJECTION: projection}
    renamed = NetworkTensors(part.where, OURS, tensors)
    architecture = {"architectures": ["CLIPTextModelWithProjection"], "projection_dim": projection.shape[0]}
    return renamed, {**text_settings(renamed, True), **architecture, "eos_token_id": OLD_END}


def _projection(part: NetworkTensors) -> Weights:
    """Return the projection as transformers has it, of which OpenCLIP's own is the transpose.

    Diffusers' script for single files kept transformers' name and order until 2024; ComfyUI reads both too.
    """
    if PROJECTION in part.tensors and OPEN_PROJECTION not in part.tensors:
        part.shape(PROJECTION, 2)
        return part.tensors[PROJECTION]
    part.shape(OPEN_PROJECTION, 2)
    return part.tensors[OPEN_PROJECTION].transpose((1, 0))


def _open_clip(part: NetworkTensors, without: Collection[int]) -> Iterator[tuple[str, Weights]]:
    """Yield the tensors, without those of some layers."""
    for name, tensor in part.tensors.items():
        if name in OPEN_CLIP:
            yield OPEN_CLIP[name], tensor
        elif name.startswith(f"{BLOCKS}."):
            number, _, rest = name.removeprefix(f"{BLOCKS}.").partition(".")
            if number not in map(str, without):
                yield from _layer(part, name, f"encoder.layers.{number}", rest, tensor)


def _layer(
    part: NetworkTensors, name: str, layer: str, rest: str, tensor: Weights
) -> Iterator[tuple[str, Weights]]:
    """Yield a layer's tensor under its new name, or three for the joint projection of q, k and v."""
    module, _, last = rest.rpartition(".")
    if rest in ("attn.in_proj_weight", "attn.in_proj_bias"):
        if not tensor.shape or tensor.shape[0] % 3 or not tensor.shape[0]:
            raise part.wrong(
                f"holds {part.prefix}{name} of {list(tensor.shape)}, which is not three projections"
            )
        width = tensor.shape[0] // 3
        for index, letter in enumerate("qkv"):
            new = f"{layer}.self_attn.{letter}_proj.{rest.removeprefix('attn.in_proj_')}"
            yield new, tensor.slice(0, index * width, (index + 1) * width)
    elif module in LAYER:
        yield f"{layer}.{LAYER[module]}.{last}", tensor
    else:
        raise part.unknown(name)

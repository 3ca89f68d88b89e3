"""Small checkpoints of Stable Diffusion XL, as diffusers saves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from msd.conversion.sources.clip_tokenizer import clip_tokenizer
from scripts import compvis_names
from tests.checkpoints import TINY, write_tokenizer
from tests.late import diffusers, transformers

FIRST, SECOND = "conditioner.embedders.0.transformer.text_model.", "conditioner.embedders.1.model."
ENCODERS: dict[str, dict[str, Any]] = {
    "text_encoder": {**TINY["text_encoder"], "hidden_act": "quick_gelu", "num_hidden_layers": 3},
    "text_encoder_2": {
        **TINY["text_encoder"],
        "hidden_size": 32,
        "num_attention_heads": 2,
        "num_hidden_layers": 4,
        "projection_dim": 24,
    },
}
UNET = {
    **TINY["unet"],
    "attention_head_dim": [1, 2, 3],
    "block_out_channels": [16, 32, 48],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "transformer_layers_per_block": [1, 2, 3],
    "layers_per_block": 2,
    "cross_attention_dim": 48 + 32,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 24 + 6 * 8,
    "sample_size": [8, 12],
}
VAE = {**TINY["vae"], "scaling_factor": 0.13025}


SINGLE_ENCODERS: dict[str, dict[str, Any]] = {
    "text_encoder": {
        **ENCODERS["text_encoder"],
        "hidden_size": 64,
        "num_attention_heads": 1,
        "vocab_size": 49408,
    },
    "text_encoder_2": {
        **ENCODERS["text_encoder_2"],
        "hidden_size": 128,
        "vocab_size": 49408,
    },
}
SINGLE_UNET = {
    **UNET,
    "attention_head_dim": [1, 1, 2],
    "block_out_channels": [64, 64, 128],
    "cross_attention_dim": 64 + 128,
    "norm_num_groups": 32,
    "sample_size": 512,
}
SINGLE_VAE = {**VAE, "block_out_channels": [32, 64], "norm_num_groups": 32}
"""As wide as the heads of public checkpoints, by which a single file's settings are known."""


SSD: dict[str, Any] = {
    "transformer_layers_per_block": [1, [2, 2], [3, 3]],
    "reverse_transformer_layers_per_block": [[3, 1, 4], [2, 1, 1], 1],
    "mid_block_type": "UNetMidBlock2D",
}
"""What makes a U-Net one of SSD-1B's kind."""


def write(
    folder: Path,
    seed: int = 0,
    single: bool = False,
    unet: Mapping[str, Any] | None = None,
    **settings: Any,
) -> diffusers.StableDiffusionXLPipeline:
    """Write a checkpoint with random weights; returns diffusers' pipeline, in float32.

    With `single`, it is one that a single file can hold. `unet` are other settings of the U-Net's, and
    `settings` those of the pipeline, as in model_index.json.
    """
    torch.manual_seed(seed)
    encoders = SINGLE_ENCODERS if single else ENCODERS
    tokenizers = {}
    for name, pad in (("tokenizer", "<|endoftext|>"), ("tokenizer_2", "!")):
        files = folder / "files" / name
        if single:
            files.mkdir(parents=True)
            for file, read in clip_tokenizer(pad).items():
                (files / file).write_bytes(read())
        else:
            write_tokenizer(files, pad_token=pad)
        tokenizers[name] = transformers.CLIPTokenizer.from_pretrained(files)
    parts = {
        "text_encoder": transformers.CLIPTextModel(transformers.CLIPTextConfig(**encoders["text_encoder"])),
        "text_encoder_2": transformers.CLIPTextModelWithProjection(
            transformers.CLIPTextConfig(**encoders["text_encoder_2"])
        ),
        "unet": diffusers.UNet2DConditionModel(**{**(SINGLE_UNET if single else UNET), **(unet or {})}),
        "vae": diffusers.AutoencoderKL(**(SINGLE_VAE if single else VAE)),
    }
    with torch.no_grad():
        for module in parts.values():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    scheduler = diffusers.EulerDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
    )
    made = {name: module.eval() for name, module in parts.items()}
    pipeline = diffusers.StableDiffusionXLPipeline(
        **made, **tokenizers, scheduler=scheduler, add_watermarker=False, **settings
    )
    pipeline.save_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def write_single_file(
    path: Path, pipeline: diffusers.StableDiffusionXLPipeline, **further: torch.Tensor
) -> Path:
    """Write the weights of a pipeline in Stability AI's layout, and `further` tensors; returns `path`."""
    states = {name: pipeline.components[name].state_dict() for name in (*ENCODERS, "unet", "vae")}
    states |= {n: {k.removeprefix("text_model."): v for k, v in states[n].items()} for n in ENCODERS}
    projection = states["text_encoder_2"].pop("text_projection.weight")
    shapes = {n: {k: tuple(v.shape) for k, v in state.items()} for n, state in states.items()}
    named = [
        *compvis_names.unet(shapes["unet"], [2, 2, 2]),
        *compvis_names.vae(shapes["vae"], len(VAE["block_out_channels"])),
    ]
    tensors = {f"{FIRST}{name}": tensor for name, tensor in states["text_encoder"].items()}
    tensors |= {each.name: _joined(each, states[each.component]).reshape(each.shape) for each in named}
    for each in compvis_names.open_clip(shapes["text_encoder_2"]):
        if each.parts[0] in shapes["text_encoder_2"]:
            name = f"{SECOND}{each.name.removeprefix('cond_stage_model.model.')}"
            tensors[name] = _joined(each, states["text_encoder_2"])
    tensors[f"{SECOND}text_projection"] = projection.T
    save_file({name: tensor.contiguous() for name, tensor in {**tensors, **further}.items()}, path)
    return path


def _joined(tensor: compvis_names.CompVisTensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([state[part] for part in tensor.parts])

"""Small checkpoints of Stable Diffusion XL, as diffusers saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from tests.checkpoints import TINY, write_tokenizer

ENCODERS: dict[str, dict[str, Any]] = {
    "text_encoder": {**TINY["text_encoder"], "hidden_act": "quick_gelu", "num_hidden_layers": 2},
    "text_encoder_2": {
        **TINY["text_encoder"],
        "hidden_size": 32,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
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


def write(folder: Path, seed: int = 0, **settings: Any) -> StableDiffusionXLPipeline:
    """Write a checkpoint with random weights; returns diffusers' pipeline, in float32.

    `settings` are those of the pipeline, as in model_index.json.
    """
    torch.manual_seed(seed)
    for name, pad in (("tokenizer", "<|endoftext|>"), ("tokenizer_2", "!")):
        write_tokenizer(folder / "files" / name, pad_token=pad)
    tokenizers = {
        n: CLIPTokenizer.from_pretrained(folder / "files" / n) for n in ("tokenizer", "tokenizer_2")
    }
    parts = {
        "text_encoder": CLIPTextModel(CLIPTextConfig(**ENCODERS["text_encoder"])),
        "text_encoder_2": CLIPTextModelWithProjection(CLIPTextConfig(**ENCODERS["text_encoder_2"])),
        "unet": UNet2DConditionModel(**UNET),
        "vae": AutoencoderKL(**VAE),
    }
    with torch.no_grad():
        for module in parts.values():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    scheduler = EulerDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
    )
    made = {name: module.eval() for name, module in parts.items()}
    pipeline = StableDiffusionXLPipeline(
        **made, **tokenizers, scheduler=scheduler, add_watermarker=False, **settings
    )
    pipeline.save_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline

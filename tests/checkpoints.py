"""Small random checkpoints, written by diffusers and transformers themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tests.late import diffusers, transformers

Config = dict[str, dict[str, Any]]
"""Settings of "text_encoder", "unet", "vae" and "scheduler", as in configs/models/."""

SD21: Config = {
    "text_encoder": {
        "hidden_act": "gelu",
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_attention_heads": 3,
        "num_hidden_layers": 3,
        "vocab_size": 517,
        "eos_token_id": 2,
        "bos_token_id": 0,
    },
    "unet": {
        "attention_head_dim": [1, 2, 3, 4],
        "block_out_channels": [16, 32, 48, 64],
        "cross_attention_dim": 48,
        "norm_num_groups": 8,
        "sample_size": 16,
        "use_linear_projection": True,
    },
    "vae": {
        "block_out_channels": [8, 16, 24, 24],
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
        "layers_per_block": 2,
        "norm_num_groups": 4,
    },
    "scheduler": {
        "_class_name": "DDIMScheduler",
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "clip_sample": False,
        "num_train_timesteps": 1000,
        "prediction_type": "epsilon",
        "set_alpha_to_one": False,
        "steps_offset": 1,
    },
}
"""Narrow, otherwise of Stable Diffusion 2.1's shape."""


def vary(config: Config, **changes: dict[str, Any]) -> Config:
    """Return `config` with some settings of some components changed."""
    return {name: {**settings, **changes.get(name, {})} for name, settings in config.items()}


SD15 = vary(
    SD21,
    text_encoder={"hidden_act": "quick_gelu", "layer_norm_eps": 1e-3},
    unet={"attention_head_dim": 2, "use_linear_projection": False, "norm_eps": 1e-4},
)
VELOCITY = vary(SD21, unet={"layers_per_block": [1, 2, 1, 1]}, scheduler={"prediction_type": "v_prediction"})
INPAINTING = vary(SD21, unet={"in_channels": 9, "transformer_layers_per_block": [1, 2, 1, 1]})
SHALLOW = vary(
    SD15,
    unet={
        "attention_head_dim": [2, 4],
        "block_out_channels": [24, 40],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
        "layers_per_block": 1,
        "freq_shift": 1,
        "flip_sin_to_cos": False,
        "time_cond_proj_dim": 20,
    },
    vae={
        "block_out_channels": [8, 12, 16],
        "down_block_types": ["DownEncoderBlock2D"] * 3,
        "up_block_types": ["UpDecoderBlock2D"] * 3,
        "layers_per_block": 1,
        "scaling_factor": 0.5,
        "use_post_quant_conv": False,
        "mid_block_add_attention": False,
    },
)
"""Every setting that differs from Stable Diffusion's, on fewer levels."""

TINY = vary(
    SD21,
    text_encoder={"num_hidden_layers": 1},
    unet={
        "attention_head_dim": [1, 2],
        "block_out_channels": [16, 24],
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "layers_per_block": 1,
    },
    vae={
        "block_out_channels": [8, 12],
        "down_block_types": ["DownEncoderBlock2D"] * 2,
        "up_block_types": ["UpDecoderBlock2D"] * 2,
        "layers_per_block": 1,
    },
)
"""Stable Diffusion 2.1's shape with as little of everything as can be."""

BK_SDM_TINY = vary(
    TINY,
    unet={
        "attention_head_dim": [2, 2, 4],
        "block_out_channels": [16, 32, 48],
        "down_block_types": ["CrossAttnDownBlock2D"] * 3,
        "up_block_types": ["CrossAttnUpBlock2D"] * 3,
        "layers_per_block": 1,
        "mid_block_type": None,
    },
)
"""The U-Net of BK-SDM-Tiny and tiny-sd: three levels with attention, and no middle block."""


def modules(config: Config, seed: int = 0, scale: float = 1.0) -> dict[str, torch.nn.Module]:
    """Return "text_encoder", "unet" and "vae" with random weights, none of which is 0 or 1.

    Those whose results the norms read are multiplied by `scale`; where it is small, the epsilons matter.
    """
    torch.manual_seed(seed)
    made = {
        "text_encoder": transformers.CLIPTextModel(transformers.CLIPTextConfig(**config["text_encoder"])),
        "unet": diffusers.UNet2DConditionModel(**config["unet"]),
        "vae": diffusers.AutoencoderKL(**config["vae"]),
    }
    with torch.no_grad():
        for module in made.values():
            for name, parameter in module.named_parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
                if any(part in name for part in ("conv", "proj_in", "embedding")):
                    parameter.mul_(scale)
    return {name: module.eval() for name, module in made.items()}


def write(
    folder: Path,
    config: Config,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    scale: float = 1.0,
    **save: Any,
) -> dict[str, torch.nn.Module]:
    """Write a checkpoint into `folder`, weights as `dtype`; return its modules, float32 with the same values.

    `scale` is that of `modules`; `save` goes to diffusers' and transformers' `save_pretrained`.
    """
    made = modules(config, seed, scale)
    for name, module in made.items():
        module.to(dtype).save_pretrained(folder / name, **save)
        module.float()
    parts = {
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
        "scheduler": ["diffusers", config["scheduler"]["_class_name"]],
        "safety_checker": [None, None],
    }
    _dump(folder / "model_index.json", {"_class_name": "StableDiffusionPipeline", **parts})
    _dump(folder / "scheduler" / "scheduler_config.json", config["scheduler"])
    write_tokenizer(folder / "tokenizer")
    return made


def write_tokenizer(folder: Path, **settings: Any) -> None:
    """Write a CLIP vocabulary of single bytes, two merges and the two special tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    merges = [("r", "e"), ("re", "d</w>")]
    tokens = [*characters, *(c + "</w>" for c in characters), *map("".join, merges)]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    _dump(folder / "vocab.json", {token: i for i, token in enumerate(tokens)})
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    _dump(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, **settings},
    )


def _dump(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")

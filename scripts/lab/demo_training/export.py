"""Writes trained parts as a diffusers folder, in float16, under Stable Diffusion 2.1's own tensor names."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

_INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "_diffusers_version": version("diffusers"),
    "feature_extractor": [None, None],
    "requires_safety_checker": False,
    "safety_checker": [None, None],
    "scheduler": ["diffusers", "DDIMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}


def _halves(model: Any, prefix: str = "") -> dict[str, Any]:
    return {
        prefix + name: tensor.detach().to("cpu", torch.float16).contiguous()
        for name, tensor in model.state_dict().items()
    }


def write_text_encoder(model: Any, folder: Path) -> None:
    """Write by hand: transformers 5 drops the prefix that every published Stable Diffusion checkpoint has."""
    folder.mkdir(parents=True, exist_ok=True)
    bare = {name.removeprefix("text_model."): tensor for name, tensor in _halves(model).items()}
    names = {
        name if name.startswith("text_projection.") else f"text_model.{name}": tensor
        for name, tensor in bare.items()
        if not name.endswith("position_ids")
    }
    save_file(names, folder / "model.safetensors", {"format": "pt"})
    config = model.config.to_diff_dict() | {"architectures": [type(model).__name__], "dtype": "float16"}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_model(model: Any, folder: Path) -> None:
    """Write one of diffusers' models into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_halves(model), folder / "diffusion_pytorch_model.safetensors", {"format": "pt"})
    model.save_config(folder)


def write(
    parts: dict[str, Any], scheduler: Any, tokenizer: Path, record: dict[str, Any], folder: Path
) -> None:
    """Write `parts` ("vae", "unet", "text_encoder"), a scheduler, the tokenizer's files and the record."""
    write_model(parts["vae"], folder / "vae")
    write_model(parts["unet"], folder / "unet")
    write_text_encoder(parts["text_encoder"], folder / "text_encoder")
    scheduler.save_config(folder / "scheduler")
    shutil.copytree(tokenizer, folder / "tokenizer", dirs_exist_ok=True)
    (folder / "model_index.json").write_text(json.dumps(_INDEX, indent=2) + "\n")
    (folder / "training.json").write_text(json.dumps(record, indent=2) + "\n")

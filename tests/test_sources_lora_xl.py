"""A LoRA of kohya's for XL, with large numbers: each fused weight beside float64's and diffusers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.lora import merge
from tests import xl_checkpoints

PREFIXES = {"unet": "lora_unet_", "text_encoder": "lora_te1_", "text_encoder_2": "lora_te2_"}
RANK, ALPHA, SCALE = 4, 2.0, 0.7
ONLY_OURS = "add_embedding"
"""Diffusers drops these layers of a file, with a warning."""


def drawn(pipeline: Any, path: Path) -> dict[tuple[str, str], np.ndarray]:
    """Write a file for all linear layers and convolutions; returns their weights with it, in float64."""
    random, tensors, wanted = torch.manual_seed(1), {}, {}
    for component, prefix in PREFIXES.items():
        for name, layer in getattr(pipeline, component).named_modules():
            if not isinstance(layer, torch.nn.Linear | torch.nn.Conv2d) or "text_projection" in name:
                continue
            plain, shape = name.removeprefix("text_model."), layer.weight.shape
            down = torch.randn(RANK, *shape[1:], generator=random)
            up = torch.randn(shape[0], RANK, *[1] * len(shape[2:]), generator=random)
            key = prefix + ("" if component == "unet" else "text_model_") + plain.replace(".", "_")
            tensors |= {f"{key}.lora_down.weight": down, f"{key}.lora_up.weight": up}
            tensors[f"{key}.alpha"] = torch.tensor(ALPHA)
            change = up.double().flatten(1) @ down.double().flatten(1) * (SCALE * ALPHA / RANK)
            whole = layer.weight.detach().double() + change.reshape(shape)
            wanted[component, plain] = whole.numpy()
    save_file(tensors, path)
    return wanted


def distance(found: Any, wanted: np.ndarray) -> float:
    """Return the largest difference, relative to the largest number."""
    found = np.asarray(found, np.float64).reshape(wanted.shape)
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def test_every_weight_is_rounded_once(tmp_path: Path) -> None:
    pipeline, path = xl_checkpoints.write(tmp_path / "xl"), tmp_path / "lora.safetensors"
    wanted = drawn(pipeline, path)
    merged = merge(open_folder(tmp_path / "xl"), [(path, SCALE)]).weights
    pipeline.load_lora_weights(tmp_path, weight_name=path.name)
    pipeline.fuse_lora(lora_scale=SCALE)
    pipeline.unload_lora_weights()
    states = {
        component: {
            n.removeprefix("text_model."): t for n, t in getattr(pipeline, component).state_dict().items()
        }
        for component in PREFIXES
    }
    for (component, name), weight in wanted.items():
        assert distance(merged[component][f"{name}.weight"].load(), weight) < 5e-7, (component, name)
        if not name.startswith(ONLY_OURS):
            assert distance(states[component][f"{name}.weight"], weight) < 5e-7, (component, name)

"""A random checkpoint of the made-up family, in diffusers' layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from msd.conversion.sources.binding import KERNEL_AXES, tensor_name
from msd.models.families import Family
from msd.models.networks import networks, read_configs, size_of
from msd.models.structure import VariableSpec
from msd.models.structure_cache import structure_of
from tests.clip_files import write_tokenizer

CONFIGS: dict[str, dict[str, Any]] = {
    "text_encoder": {"vocabulary": 700, "length": 77, "width": 24},
    "text_encoder_2": {"vocabulary": 700, "length": 77, "width": 40},
    "vae": {"channels": 4, "width": 36},
    "control": {"channels": 4, "width": 40},
    "transformer": {"channels": 4, "width": 48, "context": 64, "rows": 4, "columns": 6},
}
SCHEDULER = {"_class_name": "DDIMScheduler", "prediction_type": "epsilon"}


def write_checkpoint(family: Family, folder: Path, seed: int = 0) -> Path:
    """Write a checkpoint to `folder`, and return it."""
    _write_json(folder / "model_index.json", {"_class_name": family.pipelines[0]})
    _write_json(folder / "scheduler" / "scheduler_config.json", SCHEDULER)
    for name, config in CONFIGS.items():
        _write_json(folder / name / "config.json", config)
    (folder / "tokenizer").mkdir()
    write_tokenizer(folder / "tokenizer")
    configs = read_configs(family, CONFIGS)
    generator, weights = np.random.default_rng(seed), dict[Path, dict[str, np.ndarray]]()
    for name, network in networks(family, configs, size_of(family, configs)).items():
        part = family.component(name).part
        tensors = weights.setdefault(folder / part.folder / f"{part.stem}.safetensors", {})
        for spec in structure_of(network).variables.values():
            tensors[tensor_name(spec)] = _tensor(spec, generator)
    for path, tensors in weights.items():
        save_file(tensors, path)
    return folder


def _tensor(spec: VariableSpec, generator: np.random.Generator) -> np.ndarray:
    """Return random weights of a variable, in torch's layout."""
    is_kernel = spec.path.endswith("/kernel")
    axes = KERNEL_AXES[len(spec.shape)] if is_kernel else tuple(range(len(spec.shape)))
    shape = [spec.shape[axes.index(i)] for i in range(len(axes))]
    return (generator.standard_normal(shape) * 0.2).astype(np.float32)


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))

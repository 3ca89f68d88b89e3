"""What every kind of checkpoint is once it is opened: configurations, and weights that are not read yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msd.families import Family
from msd.ir.weights import Weights
from msd.models.networks import Configs

SCHEDULER = {
    "_class_name": "DDIMScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "clip_sample": False,
    "num_train_timesteps": 1000,
    "set_alpha_to_one": False,
    "steps_offset": 1,
}
"""Every Stable Diffusion 1.x's and 2.x's, for sources that do not say; without `prediction_type`."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose weights are not read yet.

    `kind` is "diffusers", "single file", …; `name` what people call it. `configs` and `weights` have the
    components of `family` by name, the weights each with its tensors by the names that today's diffusers and
    transformers give them (without "text_model."). `tokenizer` has a function that returns each of its files,
    by name, and `scheduler` is its configuration. `files` are all files that matter, by the name to show;
    `weight_files` says in which of them each component's weights are.
    `adapters` are those among `files` that were merged into the weights, each with its scale.
    `networks` names the networks to build: "msd" for our own, or "keras-cv".
    """

    kind: str
    name: str
    family: Family
    configs: Configs
    weights: Mapping[str, Mapping[str, Weights]]
    tokenizer: Mapping[str, Callable[[], bytes]]
    scheduler: Mapping[str, Any]
    files: Mapping[str, Path]
    weight_files: Mapping[str, tuple[str, ...]]
    adapters: Mapping[str, float] = field(default_factory=dict)
    networks: str = "msd"

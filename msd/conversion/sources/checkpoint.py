"""An opened checkpoint of any kind: its configurations, and its weights, which are not read yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from msd.bundle import ImageDefaults
from msd.conversion.few_steps import FewSteps
from msd.graph.ir.weights import Weights
from msd.graph.ledger import ComponentPruning
from msd.models.families import Family
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
"""The scheduler of Stable Diffusion 1.x and 2.x, for sources without one; it lacks `prediction_type`."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose weights are not read yet.

    `kind` is "diffusers", "single file", …; `name` is its name in messages. `configs` and `weights` have the
    components of `family` by name, the weights under the current tensor names of diffusers and transformers
    (without "text_model."). `tokenizers`, by the names that calls have for them, have a function that returns
    each of their files, by name, and `scheduler` is its configuration. `files` are all relevant files, by the
    name to show; `weight_files` names those with each component's weights.
    `adapters` are those among `files` that were merged into the weights, each with its scale, and
    `embeddings` those that added tokens, each with these. `replaced` are the components whose weights come
    from another file than the checkpoint's own.
    `networks` names the networks to build: "msd" for our own, or "keras-cv".
    `images` are the steps and the guidance that the checkpoint names itself, if it does.
    `pruned` are the components that were trained without some units, which are zeros in the weights.
    `few_steps` is the kind of few-step model that the name of a file without a scheduler tells, the
    checkpoint's or that of `few_steps_by`, and `few_step_adapters` those of adapters, by their files.
    `remarks` are sentences on what was chosen among several, or left out, in the files that were read.
    """

    kind: str
    name: str
    family: Family
    configs: Configs
    weights: Mapping[str, Mapping[str, Weights]]
    tokenizers: Mapping[str, Mapping[str, Callable[[], bytes]]]
    scheduler: Mapping[str, Any]
    files: Mapping[str, Path]
    weight_files: Mapping[str, tuple[str, ...]]
    adapters: Mapping[str, float] = field(default_factory=dict)
    embeddings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    networks: str = "msd"
    images: ImageDefaults | None = None
    pruned: Mapping[str, ComponentPruning] = field(default_factory=dict)
    few_steps: FewSteps | None = None
    few_steps_by: str = ""
    few_step_adapters: Mapping[str, FewSteps] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def free_name(self, kind: str, path: Path, taken: Collection[str] = ()) -> str:
        """Return a name among `files` that neither these nor `taken` have: many files have equal names."""
        names = (f"{kind}/{path.name}" if i == 1 else f"{kind}/{i}/{path.name}" for i in count(1))
        return next(name for name in names if name not in self.files and name not in taken)

"""CompVis's configuration, a .yaml file beside a single file: what msd reads of it.

Its loaders read the same; diffusers' (`original_config`) leave `timesteps` and `beta_schedule` at their
usual values. Stability AI's generative-models say a prediction type and a schedule by the names of classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msd.conversion.sources.compvis.stated import find_value, state
from msd.conversion.sources.compvis.stated_structure import StatedStructure, read_structure
from msd.errors import BadCheckpoint
from msd.files import bounded
from msd.files.wording import listed
from msd.models.families import Family

SCHEDULE = {"linear_start": "beta_start", "linear_end": "beta_end", "timesteps": "num_train_timesteps"}
"""Diffusers' names of what a schedule is made of."""

BETAS = {"linear": "scaled_linear", "sqrt_linear": "linear", "cosine": "squaredcos_cap_v2"}
"""Diffusers' names of CompVis's schedules (ldm/modules/diffusionmodules/util.py, make_beta_schedule)."""

COSINE_SHIFT = 0.008
SCALINGS = {"EpsScaling": "eps", "VScaling": "v"}
DISCRETIZATIONS = {"LegacyDDPMDiscretization": ""}
SCALE = "scale_factor"
MOST = {"linear_start": 1.0, "linear_end": 1.0, "cosine_s": 1.0, "timesteps": 100_000, SCALE: 1e6}
LAYERS = 12
"""Of the text encoder of a Stable Diffusion 1.x."""


@dataclass(frozen=True)
class OriginalConfig:
    """What a configuration says: its `parameterization`, "" where it has none, and numbers by its own names.

    `name` is the file's, "" where there is none. `betas` is diffusers' name of its schedule, "" without one;
    `skipped` are the text encoder's last layers that it leaves out beyond the usual, `structure` is what it
    says of networks.
    """

    name: str = ""
    parameterization: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    betas: str = ""
    skipped: int = 0
    structure: StatedStructure = field(default_factory=StatedStructure)

    @property
    def schedule(self) -> dict[str, Any]:
        """What it says of the noise schedule, by diffusers' names."""
        found: dict[str, Any] = {n: self.numbers[old] for old, n in SCHEDULE.items() if old in self.numbers}
        return {**found, "beta_schedule": self.betas} if self.betas else found

    def scaling_factor(self, family: Family) -> float:
        """Return the factor of its autoencoder's latents, the family's where it says none."""
        return self.numbers.get(SCALE, family.scaling_factor)

    def remarks(self, scheduler: Mapping[str, Any], family: Family | None) -> list[str]:
        """Return a sentence for each value that is not the usual one; `family` is None for another's VAE."""
        usual = {old: scheduler[new] for old, new in SCHEDULE.items()}
        usual |= {SCALE: family.scaling_factor} if family else {}
        other = [
            (old, f"{self.numbers[old]:g}", f"{value:g}")
            for old, value in usual.items()
            if self.numbers.get(old, value) != value
        ]
        if self.betas and self.betas != scheduler["beta_schedule"]:
            theirs = {ours: name for name, ours in BETAS.items()}
            other.append(("beta_schedule", theirs[self.betas], theirs[scheduler["beta_schedule"]]))
        says = f"{self.name} beside the file says"
        said = [f"{says} {key} = {has}, which is used in place of {value}" for key, has, value in other]
        if self.skipped > 0:
            said.append(f"{says} layer: hidden, which is not read; --clip-skip {self.skipped} does the same")
        if self.skipped < 0:
            said.append(f"{says} layer: last, which is not read: a 2.x leaves its text encoder's last out")
        return said


def read_original_config(path: Path) -> OriginalConfig:
    """Return what the file at `path` says, nothing where there is none, or none of a model.

    Raises BadCheckpoint, naming the file, for one that is not YAML, and for a number that no model has.
    """
    config = read_model(path)
    if not config:
        return OriginalConfig()
    found = {key: find_value(config, key) for key in MOST}
    if found["timesteps"] is None:
        found["timesteps"] = find_value(config, "num_idx")
    numbers = {key: _number(path, key, value) for key, value in found.items() if value is not None}
    scaling = _class(path, config, "scaling_config", SCALINGS)
    _class(path, config, "discretization_config", DISCRETIZATIONS)
    return OriginalConfig(
        path.name,
        _text(config, "parameterization") or scaling,
        numbers,
        betas=_betas(path, config, numbers),
        skipped=_skipped(config),
        structure=read_structure(path, config),
    )


def read_model(path: Path) -> dict[str, Any]:
    """Return what the file at `path` holds of a model, nothing where there is none, or none of a model.

    Raises BadCheckpoint, naming the file, for one that is not YAML.
    """
    if not path.is_file():
        return {}
    try:
        config = bounded.read_yaml(path)
    except (OSError, ValueError) as error:
        raise BadCheckpoint(f"cannot read {path}, which is beside the checkpoint: {error}") from error
    return config if isinstance(config, dict) and "model" in config else {}


def read_scale(path: Path, config: Any) -> float | None:
    """Return the factor of latents that a configuration says, None without one; raises BadCheckpoint."""
    value = find_value(config, SCALE)
    return None if value is None else _number(path, SCALE, value)


def _skipped(config: Any) -> int:
    """Return how many of the text encoder's last layers are left out beyond the usual, -1 for one fewer."""
    wrapper, index = _target(config, "cond_stage_config"), _text(config, "layer_idx")
    if wrapper.endswith(".FrozenOpenCLIPEmbedder"):
        return -1 if _text(config, "layer") == "last" else 0
    is_hidden = wrapper.endswith(".FrozenCLIPEmbedder") and _text(config, "layer") == "hidden"
    if not is_hidden or not re.fullmatch(r"-?\d{1,2}", index):
        return 0
    return -1 - int(index) if int(index) < 0 else LAYERS - int(index)


def _betas(path: Path, config: Any, numbers: Mapping[str, float]) -> str:
    """Return diffusers' name of the schedule of betas, "" where there is none; raises BadCheckpoint."""
    if find_value(config, "given_betas") is not None:
        raise BadCheckpoint(
            f"{path} says given_betas, and betas are made of linear_start, linear_end and timesteps alone"
        )
    name, shift = _text(config, "beta_schedule"), numbers.get("cosine_s", COSINE_SHIFT)
    if name and name not in BETAS:
        raise BadCheckpoint(f"{path} says beta_schedule: {name}, and only {', '.join(BETAS)} are supported")
    if name == "cosine" and shift != COSINE_SHIFT:
        raise BadCheckpoint(f"{path} says cosine_s: {shift:g}, and only {COSINE_SHIFT} is supported")
    return BETAS.get(name, "")


def _class(path: Path, config: Any, key: str, known: Mapping[str, str]) -> str:
    """Return what the class that a key names stands for, "" without the key; raises BadCheckpoint."""
    name = _target(config, key).rpartition(".")[2]
    if name and name not in known:
        raise BadCheckpoint(f"{path} says {key}: {name}, and only {listed(known)} can be converted")
    return known.get(name, "")


def _target(config: Any, key: str) -> str:
    """Return the class that a key names, with its package; "" without the key."""
    named = find_value(config, key)
    return _text(named, "target") if isinstance(named, dict) else ""


def _text(config: Any, key: str) -> str:
    """Return the text of a key's value, "" without one."""
    value = find_value(config, key)
    return "" if value is None else state(value)


def _number(path: Path, key: str, value: Any) -> float:
    whole, text = key == "timesteps", state(value)
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = 0
    if not 0 < number <= MOST[key]:
        kind = "whole number" if whole else "number"
        raise BadCheckpoint(
            f"{path} says {key}: {text}, and a {kind} above 0, up to {MOST[key]:g}, was expected"
        )
    return number

"""CompVis's configuration, a .yaml file beside a single file: what msd reads of it.

Its loaders and diffusers' (`original_config`) read the same, but for diffusers' `timesteps`, always 1000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msd.errors import BadCheckpoint
from msd.models.families import Family

LONGEST = 1 << 20
LINE = r"^(?P<indent>\s*){}:[ \t]*[\"']?(?P<value>[^\s#\"']+)[\"']?[ \t]*(#.*)?$"
SCHEDULE = {"linear_start": "beta_start", "linear_end": "beta_end", "timesteps": "num_train_timesteps"}
"""Diffusers' names of what a schedule is made of."""

SCALE = "scale_factor"
MOST = {"linear_start": 1.0, "linear_end": 1.0, "timesteps": 100_000, SCALE: 1e6}


@dataclass(frozen=True)
class OriginalConfig:
    """What a configuration says: its `parameterization`, "" where it has none, and numbers by its own names.

    `name` is the file's, "" where there is none.
    """

    name: str = ""
    parameterization: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def schedule(self) -> dict[str, float]:
        """What it says of the noise schedule, by diffusers' names."""
        return {new: self.numbers[old] for old, new in SCHEDULE.items() if old in self.numbers}

    def scaling_factor(self, family: Family) -> float:
        """Return the factor of its autoencoder's latents, the family's where it says none."""
        return self.numbers.get(SCALE, family.scaling_factor)

    def remarks(self, scheduler: Mapping[str, Any], family: Family | None) -> list[str]:
        """Return a sentence for each number that is not the usual one; `family` is None for another's VAE."""
        usual = {old: scheduler[new] for old, new in SCHEDULE.items()}
        usual |= {SCALE: family.scaling_factor} if family else {}
        return [
            f"{self.name} beside the file says {old} = {self.numbers[old]:g}, which is used in place of"
            f" {value:g}"
            for old, value in usual.items()
            if self.numbers.get(old, value) != value
        ]


def read_original_config(path: Path) -> OriginalConfig:
    """Return what the file at `path` says, nothing where it is no such configuration.

    Raises BadCheckpoint, naming the file and the key, for a number that no model has.
    """
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return OriginalConfig()
    if not re.search(r"^model:", text, re.MULTILINE):
        return OriginalConfig()
    found = {key: _value(text, key) for key in MOST}
    numbers = {key: _number(path, key, value) for key, value in found.items() if value}
    return OriginalConfig(path.name, _value(text, "parameterization"), numbers)


def _value(text: str, key: str) -> str:
    """Return the value of the key that is the least indented, as the model's own is; "" without one."""
    matches = re.finditer(LINE.format(key), text, re.MULTILINE)
    best = min(matches, key=lambda match: len(match["indent"]), default=None)
    return best["value"] if best else ""


def _number(path: Path, key: str, text: str) -> float:
    whole = key == "timesteps"
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

"""What the U-Net of a single file predicts, and for which picture size: its shapes do not tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.errors import BadCheckpoint
from msd.sources.checkpoint import SCHEDULER

EPSILON, VELOCITY = "epsilon", "v_prediction"
SPELLED = {"epsilon": EPSILON, "eps": EPSILON, "v": VELOCITY, "v_prediction": VELOCITY}
BASE_STEP = "875000"
"""The global_step of Stable Diffusion 2 base, by which diffusers knows it."""

ASSUMED = "assumed, as in diffusers, of a 2.x that does not tell (--prediction-type says otherwise)"
LONGEST_YAML = 1 << 20
PARAMETERIZATION = re.compile(r"^\s*parameterization:\s*[\"']?(\w+)[\"']?\s*(#.*)?$", re.MULTILINE)
RESOLUTION = re.compile(r"(\d{1,5})x(\d{1,5})")


@dataclass(frozen=True)
class PredictionType:
    """`kind` is "epsilon" or "v_prediction"; `because` says how that is known, or that it is assumed."""

    kind: str
    because: str

    def scheduler(self) -> dict[str, Any]:
        """Return the scheduler's configuration; the reason is a private key, which diffusers passes over."""
        return {**SCHEDULER, "prediction_type": self.kind, "_prediction_type_because": self.because}


def prediction(path: Path, said: Mapping[str, str], asked: str | None, ambiguous: bool) -> PredictionType:
    """Return what the U-Net in the file at `path` predicts.

    In this order: what is `asked` for, what is `said` in the file's metadata, in a .yaml beside it, by its
    global_step. If nothing tells, noise, or where that is `ambiguous` velocity, as diffusers assumes.
    """
    if asked:
        return PredictionType(asked, "as asked for")
    if (told := SPELLED.get(said.get("modelspec.prediction_type", ""))) is not None:
        return PredictionType(told, "its metadata says so")
    if (told := _by_architecture(said.get("modelspec.architecture", ""))) is not None:
        return PredictionType(told, "its metadata names an architecture that does")
    if (told := _by_yaml(path.with_suffix(".yaml"))) is not None:
        return PredictionType(told, f"{path.with_suffix('.yaml').name} beside it says so")
    if not ambiguous:
        return PredictionType(EPSILON, "as Stable Diffusion 1.x and inpainting do")
    if said.get("global_step") == BASE_STEP:
        return PredictionType(EPSILON, f"its global_step of {BASE_STEP} is that of Stable Diffusion 2 base")
    return PredictionType(VELOCITY, ASSUMED)


def cells(said: Mapping[str, str], velocity_of_second: bool, scale: int) -> list[int]:
    """Return height and width of the latents, `scale` pixels a cell, for which a U-Net was made.

    The metadata has width x height in pixels; otherwise a Stable Diffusion 2.x that predicts velocity is for
    768 pixels, and any other for 512.
    """
    match = RESOLUTION.fullmatch(said.get("modelspec.resolution", ""))
    if match and all(int(pixels) >= scale for pixels in match.groups()):
        return [int(match[2]) // scale, int(match[1]) // scale]
    return [(768 if velocity_of_second else 512) // 8] * 2


def _by_architecture(name: str) -> str | None:
    if name.startswith("stable-diffusion-v2-768-v"):
        return VELOCITY
    return EPSILON if name.startswith(("stable-diffusion-v1", "stable-diffusion-v2-512")) else None


def _by_yaml(path: Path) -> str | None:
    """Return what a configuration of CompVis's says, if `path` is one; without a word it means noise."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST_YAML).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if not re.search(r"^model:", text, re.MULTILINE):
        return None
    match = PARAMETERIZATION.search(text)
    kind = match[1] if match else "eps"
    if kind not in SPELLED:
        raise BadCheckpoint(f"{path} says parameterization: {kind}, and only eps and v are supported")
    return SPELLED[kind]

"""The prediction type and the image size of a single file's U-Net, which its shapes do not determine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.conversion.sources.checkpoint import SCHEDULER
from msd.errors import BadCheckpoint

EPSILON, VELOCITY = "epsilon", "v_prediction"
SPELLED = {"epsilon": EPSILON, "eps": EPSILON, "v": VELOCITY, "v_prediction": VELOCITY}
BASE_STEP = "875000"
"""The global_step of Stable Diffusion 2 base, by which diffusers recognises it."""

ASSUMED = "assumed, as in diffusers, of a 2.x that does not tell (--prediction-type says otherwise)"
LONGEST_YAML = 1 << 20
PARAMETERIZATION = re.compile(r"^\s*parameterization:\s*[\"']?(\w+)[\"']?\s*(#.*)?$", re.MULTILINE)
RESOLUTION = re.compile(r"(\d{1,5})x(\d{1,5})")


@dataclass(frozen=True)
class PredictionType:
    """The prediction type `kind`, "epsilon" or "v_prediction"; `because` gives the evidence or assumption."""

    kind: str
    because: str

    def scheduler(self) -> dict[str, Any]:
        """Return the scheduler's configuration, with the reason under a key that diffusers ignores."""
        return {**SCHEDULER, "prediction_type": self.kind, "_prediction_type_because": self.because}


def prediction(
    path: Path, metadata: Mapping[str, str], option: str | None, ambiguous: bool
) -> PredictionType:
    """Return the prediction type of the U-Net in the file at `path`.

    The first of these decides: the option `option`, the file's `metadata`, a .yaml file beside it, its
    global_step. Without any, it is noise, or velocity if `ambiguous`, as diffusers assumes.
    """
    if option:
        return PredictionType(option, "as asked for")
    if (kind := SPELLED.get(metadata.get("modelspec.prediction_type", ""))) is not None:
        return PredictionType(kind, "its metadata says so")
    if (kind := _by_architecture(metadata.get("modelspec.architecture", ""))) is not None:
        return PredictionType(kind, "its metadata names an architecture that does")
    if (kind := _by_yaml(path.with_suffix(".yaml"))) is not None:
        return PredictionType(kind, f"{path.with_suffix('.yaml').name} beside it says so")
    if not ambiguous:
        return PredictionType(EPSILON, "as Stable Diffusion 1.x and inpainting do")
    if metadata.get("global_step") == BASE_STEP:
        return PredictionType(EPSILON, f"its global_step of {BASE_STEP} is that of Stable Diffusion 2 base")
    return PredictionType(VELOCITY, ASSUMED)


def cells(metadata: Mapping[str, str], velocity_of_second: bool, scale: int) -> list[int]:
    """Return the height and width in latent cells, of `scale` pixels each, for which a U-Net was trained.

    The metadata may give width x height in pixels; otherwise a Stable Diffusion 2.x that predicts velocity
    has 768 pixels, and any other 512.
    """
    match = RESOLUTION.fullmatch(metadata.get("modelspec.resolution", ""))
    if match and all(int(pixels) >= scale for pixels in match.groups()):
        return [int(match[2]) // scale, int(match[1]) // scale]
    return [(768 if velocity_of_second else 512) // 8] * 2


def _by_architecture(name: str) -> str | None:
    if name.startswith("stable-diffusion-v2-768-v"):
        return VELOCITY
    return EPSILON if name.startswith(("stable-diffusion-v1", "stable-diffusion-v2-512")) else None


def _by_yaml(path: Path) -> str | None:
    """Return the prediction type in CompVis's configuration at `path`, if it is one; the default is noise."""
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

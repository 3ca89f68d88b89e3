"""Drops the last layers of a checkpoint's text encoder ("CLIP skip").

The numbers are those of diffusers' `clip_skip`: 1 takes the output of the last layer but one, through the
final layer norm; in Stable Diffusion XL, of the last but two, without it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadConfig
from msd.files.wording import counted
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER

LAYER = re.compile(r"encoder\.layers\.([0-9]{1,9})\.")


def skip_layers(checkpoint: Checkpoint, count: int) -> Checkpoint:
    """Return the checkpoint without the last `count` layers of its text encoder.

    Of Stable Diffusion XL's two, whose last layer is skipped already, `count` more. Raises BadConfig for
    keras-cv's own networks, and where no layer would remain.
    """
    if not count:
        return checkpoint
    if checkpoint.networks != "msd":
        raise BadConfig("keras-cv's own text encoder always has all layers; --source auto can skip some")
    own = 0 if checkpoint.family is STABLE_DIFFUSION else 1
    for encoder in checkpoint.family.text_encoders:
        layers = checkpoint.configs[encoder.name].layers
        if not 0 < count < layers - own:
            beyond = ", of which the last is skipped already," if own else ","
            skipped = counted(count, "layer")
            raise BadConfig(
                f"{skipped} cannot be skipped: {checkpoint.name}'s {encoder.title} has {layers}{beyond}"
                " and one must remain"
            )
    return _of_xl(checkpoint, count) if own else _of_one(checkpoint, count)


def _of_xl(checkpoint: Checkpoint, count: int) -> Checkpoint:
    names = [encoder.name for encoder in checkpoint.family.text_encoders]
    skipping = {name: replace(checkpoint.configs[name], skipped=count) for name in names}
    return replace(checkpoint, configs={**checkpoint.configs, **skipping})


def _of_one(checkpoint: Checkpoint, count: int) -> Checkpoint:
    config, weights = checkpoint.configs[TEXT_ENCODER.name], checkpoint.weights[TEXT_ENCODER.name]
    layers = config.layers - count
    kept = {name: each for name, each in weights.items() if _index(name) < layers}
    return replace(
        checkpoint,
        configs={**checkpoint.configs, TEXT_ENCODER.name: replace(config, layers=layers)},
        weights={**checkpoint.weights, TEXT_ENCODER.name: kept},
    )


def _index(name: str) -> int:
    """Return the number of the layer that a tensor belongs to, -1 for the others."""
    match = LAYER.match(name)
    return int(match[1]) if match else -1

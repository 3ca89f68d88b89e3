"""Drops the last layers of a checkpoint's text encoder ("CLIP skip").

The numbers are those of diffusers' `clip_skip`: 1 takes the output of the last layer but one, through the
final layer norm.
"""

from __future__ import annotations

import re
from dataclasses import replace

from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadConfig
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER

LAYER = re.compile(r"encoder\.layers\.([0-9]{1,9})\.")


def skip_layers(checkpoint: Checkpoint, count: int) -> Checkpoint:
    """Return the checkpoint without the last `count` layers of its text encoder.

    Raises BadConfig for a checkpoint of another family, for keras-cv's own networks, and where no layer would
    remain.
    """
    if not count:
        return checkpoint
    if checkpoint.family is not STABLE_DIFFUSION:
        raise BadConfig(
            f"layers can be skipped in {STABLE_DIFFUSION.title} only, not {checkpoint.family.title}"
        )
    if checkpoint.networks != "msd":
        raise BadConfig("keras-cv's own text encoder always has all layers; --source auto can skip some")
    config, weights = checkpoint.configs[TEXT_ENCODER.name], checkpoint.weights[TEXT_ENCODER.name]
    if not 0 < count < config.layers:
        raise BadConfig(
            f"{count} layers cannot be skipped: {checkpoint.name}'s text encoder has {config.layers}, and "
            "one must remain"
        )
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

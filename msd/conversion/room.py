"""The recipe where none is named: a smaller one for a denoiser whose file the target has no room for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from msd.compress.encoding.encode import stored_bits
from msd.compress.encoding.recipe import Recipe, find_recipe
from msd.conversion.settings import Settings
from msd.conversion.sources.checkpoint import Checkpoint

SMALLER = "gpu-w4-unet"
"""The recipe that stores a U-Net in half of the default's bytes."""


def file_bytes(checkpoint: Checkpoint, settings: Settings, recipe: Recipe) -> int:
    """Return about how many bytes the largest file of the denoiser has by a recipe."""
    name = checkpoint.family.denoiser.name
    weights = checkpoint.weights.get(name, {}).items()
    whole = sum(stored_bits(recipe, name, tensor, each) for tensor, each in weights) // 8
    return whole // 2 if settings.split else whole


def with_room(checkpoint: Checkpoint, settings: Settings, components: Collection[str]) -> Settings:
    """Return the settings, with a smaller recipe where the default's U-Net is too large for the device.

    A recipe that was named stays. `smaller_because` of the result says why in a sentence.
    """
    most, denoiser = settings.target.device.file_bytes, checkpoint.family.denoiser
    if settings.recipe_named or denoiser.name not in components or most is None:
        return settings
    if (size := file_bytes(checkpoint, settings, settings.recipe)) <= most:
        return settings
    smaller = find_recipe(SMALLER)
    ways = [
        *([] if settings.calibration else ["--calibration rounds it so that errors compensate"]),
        *([] if settings.split else ["--split writes two files of int8"]),
        f"--recipe {settings.recipe.name} keeps int8",
    ]
    because = (
        f"the {denoiser.title} is stored as int4 (recipe {SMALLER}): as int8 its file would have"
        f" {size / 1e9:.2f} GB, beyond the {most / 1e9:.2f} GB of {settings.target.device.name};"
        f" {', '.join(ways)}"
    )
    return replace(settings, recipe=smaller, smaller_because=because)

"""The size of images in the config.json of a U-Net that diffusers saved before version 0.9."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

USUAL = 64
"""The rows and columns of latents of every model that those versions knew."""

OLD = re.compile(r"0\.[0-8](\D.*)?")


def with_usual_size(where: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a U-Net's settings with the size that diffusers' pipelines give it, and a sentence if it is new.

    The sentence names `where` they are. Old versions saved 32 for Stable Diffusion 1.x, which is of 64, and
    fine-tunes have kept it.
    """
    size, version = settings.get("sample_size"), str(settings.get("_diffusers_version"))
    if type(size) is not int or not 0 < size < USUAL or not OLD.fullmatch(version):
        return dict(settings), ()
    return {**settings, "sample_size": USUAL}, (
        f"{where} says sample_size = {size}, as diffusers {version} saved it by mistake: {USUAL} is"
        " taken, as in diffusers",
    )

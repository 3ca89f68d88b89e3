"""The schedule of models that repaint: diffusers' StableDiffusionInpaintPipeline replaces a setting of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIPELINE = "StableDiffusionInpaintPipeline"
SETTING, PNDM = "skip_prk_steps", "PNDMScheduler"


def repainted(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a scheduler's configuration as that pipeline takes it, and a sentence where it differs.

    PNDM begins without the steps of Runge and Kutta there, whatever is said; null alone keeps them.
    """
    if config.get(SETTING, config.get("_class_name") != PNDM) is not False:
        return dict(config), ()
    remark = f"{SETTING} of the checkpoint's scheduler is taken as true, as diffusers' {PIPELINE} takes it"
    return {**config, SETTING: True}, (remark,) if config.get("_class_name") == PNDM else ()

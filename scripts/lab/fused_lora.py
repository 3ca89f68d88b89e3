"""A checkpoint with a latent consistency LoRA in its weights, as diffusers makes it."""

from __future__ import annotations

import shutil
from pathlib import Path

from diffusers import LCMScheduler, StableDiffusionPipeline

from msd.conversion.sources.diffusers import DISTILLATION


def fuse_lora(checkpoint: Path, lora: Path, out: Path) -> Path:
    """Write `checkpoint` with what `msd distill --lora` wrote to `lora`, a folder, and return `out`."""
    pipe = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    pipe.load_lora_weights(lora)
    pipe.fuse_lora()
    pipe.unload_lora_weights()
    pipe.scheduler = LCMScheduler.from_config(pipe.scheduler.config)
    pipe.save_pretrained(out)
    shutil.copy(lora / DISTILLATION, out)
    return out

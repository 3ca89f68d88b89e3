"""A picture drawn by a converted bundle and by diffusers' own pipeline, from the same noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from msd.bundle import Bundle
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import BY_CLASS, make_scheduler

KINDS = {name: kind for kind, name in BY_CLASS.items()}
"""Diffusers' class of each of our schedulers."""


@dataclass(frozen=True)
class Drawing:
    """What to draw, with what scheduler, and changes of its configuration."""

    scheduler: str
    steps: int = 6
    guidance: float = 7.5
    prompt: str = "a red dog!"
    negative_prompt: str = "blurry"
    seed: int = 0
    changes: tuple[tuple[str, Any], ...] = ()

    def ours(self, bundle: Bundle, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        """Our last latents, NHWC, our picture in [0, 1], and the way that guidance took."""
        config = {**bundle.manifest.scheduler, **dict(self.changes)}
        pipeline = Pipeline(bundle)
        pipeline.scheduler = make_scheduler(config, self.scheduler)
        settings = {"steps": self.steps, "guidance": self.guidance, "latents": start, "seed": self.seed}
        picture = pipeline.generate(self.prompt, negative_prompt=self.negative_prompt, **settings)
        return picture.latents, picture.pixels / 255, picture.metadata["guidance_mode"]

    def theirs(self, checkpoint: Path, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of diffusers, whose scheduler is given our noise."""
        import diffusers

        pipeline, config = opened(checkpoint)
        kind = getattr(diffusers, KINDS[self.scheduler])
        pipeline.scheduler = kind.from_config(config, **dict(self.changes))
        settings: dict[str, Any] = {"negative_prompt": self.negative_prompt, "guidance_scale": self.guidance}
        settings |= {"num_inference_steps": self.steps, "output_type": "latent"}
        settings |= {"eta": dict(self.changes).get("eta", 0.3)} if self.scheduler == "tcd" else {}
        added = [nchw(noise(self.seed, start.shape, i)) for i in range(1, self.steps + 1)]
        with mock.patch(f"{kind.__module__}.randn_tensor", side_effect=added, create=True):
            latents = pipeline(self.prompt, latents=nchw(start), **settings).images
        image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
        return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


@cache
def opened(checkpoint: Path) -> tuple[Any, dict[str, Any]]:
    """Diffusers' pipeline in float32, and its scheduler's configuration."""
    import torch
    from diffusers import StableDiffusionPipeline

    settings = {"safety_checker": None, "torch_dtype": torch.float32}
    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, **settings)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline, dict(pipeline.scheduler.config)


def nchw(x: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


def nhwc(x: Any) -> np.ndarray:
    return np.asarray(x.numpy().transpose(0, 2, 3, 1))

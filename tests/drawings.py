"""A picture drawn by a converted bundle and by diffusers' own pipeline, from the same noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
from msd.run.runtime.step import StepTable
from tests.schedulers import Paths, diffusers_class

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
        pipeline, config = opened(checkpoint)
        kind = diffusers_class(KINDS[self.scheduler])
        pipeline.scheduler = kind.from_config(config, **dict(self.changes))
        table = make_scheduler(pipeline.scheduler.config, self.scheduler).table(self.steps)
        added = noise_taken(table, self.seed, start.shape, on_paths=self.scheduler == "dpm++-sde")
        settings: dict[str, Any] = {"negative_prompt": self.negative_prompt, "guidance_scale": self.guidance}
        settings |= {"num_inference_steps": self.steps, "output_type": "latent"}
        settings |= {"eta": dict(self.changes).get("eta", 0.3)} if self.scheduler == "tcd" else {}
        with noise_given(kind.__module__, added):
            latents = pipeline(self.prompt, latents=nchw(start), **settings).images
        image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
        return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


@contextmanager
def noise_given(module: str, added: Iterator[Any]) -> Iterator[None]:
    """Let the scheduler of diffusers in a module draw the noise `added`, one after the other."""
    sampler = mock.Mock(return_value=lambda *sigmas: next(added))
    with (
        mock.patch(f"{module}.randn_tensor", side_effect=added, create=True),
        mock.patch(f"{module}.BrownianTreeNoiseSampler", sampler, create=True),
    ):
        yield


def noise_taken(table: StepTable, seed: int, shape: tuple[int, ...], on_paths: bool = False) -> Iterator[Any]:
    """Yield the noise that the runs of a table take, as torch's; then zeros, for draws that do not count."""
    paths = Paths(table)
    for i, step in enumerate(table.steps):
        if step.takes_noise:
            own = noise(seed, shape, i + 1)
            yield nchw(paths.sampled(i, own) if on_paths else own)
    while True:
        yield nchw(np.zeros(shape, np.float32))


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

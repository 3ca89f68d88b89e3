"""Our tables of steps beside diffusers' schedulers, from the same latents, outputs and noise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from msd.run.runtime.scheduler import SCHEDULERS
from msd.run.runtime.step import Float

KINDS = {
    "ddim": "DDIMScheduler",
    "dpm++": "DPMSolverMultistepScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler-a": "EulerAncestralDiscreteScheduler",
    "lcm": "LCMScheduler",
    "tcd": "TCDScheduler",
}


def worst_difference(
    config: dict[str, Any], steps: int, kind: str = "ddim", strength: float | None = None
) -> float:
    """Return how far any step of ours is from diffusers', relative to the largest number in that step.

    Each step goes on from where diffusers' step before has ended. With a `strength`, the first one begins
    with an image, and after each step an image is noised as inpainting does.
    """
    import torch

    theirs, timesteps = diffusers_scheduler(config, steps, kind, strength)
    table = SCHEDULERS[kind].from_config(config).table(steps, strength)
    assert table.start == pytest.approx(float(theirs.init_noise_sigma), rel=1e-6)
    assert [step.timestep for step in table.steps] == pytest.approx(timesteps.tolist(), abs=1e-3)
    eta = {"eta": config.get("eta", 0.3)} if kind == "tcd" else {}
    random = np.random.default_rng(steps)
    image, added = random.standard_normal((2, 1, 5, 3, 4), np.float32)
    latent, clean, worst = added * np.float32(table.start), None, 0.0

    def noised(index: int) -> Float:
        """Return diffusers' image with noise before a step; compare ours."""
        nonlocal worst
        result = image
        if index < len(timesteps):
            of_torch = torch.from_numpy(image), torch.from_numpy(added), timesteps[index : index + 1]
            result = theirs.add_noise(*of_torch).numpy()
        worst = max(worst, difference(table.noised(index, image, added), result))
        return result

    latent = latent if strength is None else noised(0)
    for i, (step, timestep) in enumerate(zip(table.steps, timesteps, strict=True), 1):
        output, added = random.standard_normal((2, *latent.shape), np.float32)
        scaled = theirs.scale_model_input(torch.from_numpy(latent), timestep).numpy()
        worst = max(worst, difference(np.float32(step.scale) * latent, scaled))
        expected = stepped(theirs, output, timestep, latent, added, **eta)
        got, clean = step.apply(latent, output, clean, added)
        worst = max(worst, difference(got, expected, latent))
        if strength is not None:
            noised(i)
        latent = expected
    return worst


def diffusers_scheduler(
    config: dict[str, Any], steps: int, kind: str, strength: float | None
) -> tuple[Any, Any]:
    """Return a scheduler of diffusers and the timesteps that an image of a strength keeps; None: all."""
    import diffusers

    theirs = getattr(diffusers, KINDS[kind]).from_config(config)
    if config.get("keeps_all_steps") and strength is not None and kind == "lcm":
        theirs.set_timesteps(steps, strength=strength)
        return theirs, theirs.timesteps
    theirs.set_timesteps(steps)
    if strength is None:
        return theirs, theirs.timesteps
    pipeline: Any = SimpleNamespace(scheduler=theirs)
    kept = diffusers.StableDiffusionImg2ImgPipeline.get_timesteps(pipeline, steps, strength, "cpu")
    return theirs, kept[0]


def stepped(theirs: Any, output: Float, timestep: Any, latent: Float, added: Float, **eta: float) -> Float:
    """Return the next latents by a scheduler of diffusers, which adds the noise `added` where it adds any."""
    import torch

    module = type(theirs).__module__
    noise = mock.patch(f"{module}.randn_tensor", return_value=torch.from_numpy(added), create=True)
    with noise:
        step = theirs.step(torch.from_numpy(output), timestep, torch.from_numpy(latent), **eta)
    result: Float = step.prev_sample.numpy()
    return result


def difference(ours: Float, theirs: Float, *others: Float) -> float:
    """Return the largest difference relative to the largest number, at least 1, of `theirs` and `others`."""
    assert (ours.dtype, ours.shape) == (np.float32, theirs.shape)
    largest = max(1.0, *(float(np.abs(each).max()) for each in (theirs, *others)))
    return float(np.abs(ours - theirs).max()) / largest

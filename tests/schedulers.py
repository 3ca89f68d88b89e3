"""Our tables of steps beside diffusers' schedulers, from the same latents, outputs and noise."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from msd.run.runtime.arrays import Float
from msd.run.runtime.scheduler import SCHEDULERS
from msd.run.runtime.step import Step, StepTable, step_table

KINDS = {
    "ddim": "DDIMScheduler",
    "ddpm": "DDPMScheduler",
    "deis": "DEISMultistepScheduler",
    "dpm++": "DPMSolverMultistepScheduler",
    "dpm++-2s": "DPMSolverSinglestepScheduler",
    "dpm++-sde": "DPMSolverSDEScheduler",
    "dpm2": "KDPM2DiscreteScheduler",
    "dpm2-a": "KDPM2AncestralDiscreteScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler-a": "EulerAncestralDiscreteScheduler",
    "heun": "HeunDiscreteScheduler",
    "lcm": "LCMScheduler",
    "lms": "LMSDiscreteScheduler",
    "pndm": "PNDMScheduler",
    "tcd": "TCDScheduler",
    "unipc": "UniPCMultistepScheduler",
}
NO_SAMPLE = ("dpm++-sde", "dpm2", "dpm2-a", "euler-a", "pndm")
"""The schedulers of diffusers that have not written prediction_type sample."""


def worst_difference(
    config: dict[str, Any],
    steps: int,
    kind: str = "ddim",
    strength: float | None = None,
    in_float64: bool = False,
) -> float:
    """Return how far any step of ours is from diffusers', relative to the largest number in that step.

    Each step goes on from where diffusers' step before has ended. With a `strength`, the first one begins
    with an image, and after each step an image is noised as inpainting does. `in_float64` is for solvers of
    high order: diffusers computes their coefficients in float32 from small differences.
    """
    import torch

    theirs, timesteps = diffusers_scheduler(config, steps, kind, strength)
    if in_float64:
        theirs.sigmas = theirs.sigmas.double()
    table = SCHEDULERS[kind].from_config(config).table(steps, strength)
    assert table.start == pytest.approx(float(theirs.init_noise_sigma), rel=1e-6)
    ours = [step.timestep for step in table.steps]
    assert ours == pytest.approx(rounded(timesteps, ours, config), abs=closeness(config))
    eta = {"eta": config.get("eta", 0.3)} if kind == "tcd" else {}
    random = np.random.default_rng(steps)
    image, added = random.standard_normal((2, 1, 5, 3, 4), np.float32)
    latent, worst, wide = added * np.float32(table.start), 0.0, np.float64 if in_float64 else np.float32

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
    memory, paths = None, Paths(table)
    for i, (step, timestep) in enumerate(zip(table.steps, timesteps, strict=True), 1):
        output, added = random.standard_normal((2, *latent.shape), np.float32)
        scaled = theirs.scale_model_input(torch.from_numpy(latent), timestep).numpy()
        worst = max(worst, difference(np.float32(step.scale) * latent, scaled))
        sampled = paths.sampled(i - 1, added) if kind == "dpm++-sde" else added
        arrays = output.astype(wide), timestep, latent.astype(wide), sampled
        expected = stepped(theirs, *arrays, **eta).astype(np.float32)
        got, memory = step.apply(latent, output, memory, added)
        worst = max(worst, difference(got, expected, latent))
        if strength is not None:
            noised(i)
        latent = expected
    return worst


def closeness(config: dict[str, Any]) -> float:
    """Return by how much timesteps may differ: by less than a thousandth in all schedules but a few.

    Rescaled betas leave the least sigma to the rounding of float32, which differs among processors. Sigmas
    that are spaced between the ends follow it, by 7 thousandths of a timestep on one of them.
    """
    return 1e-2 if config.get("rescale_betas_zero_snr") and spaced(config) else 1e-3


def spaced(config: dict[str, Any]) -> bool:
    """Return whether sigmas are spaced between the first and the last of training."""
    return any(config.get(f"use_{scale}_sigmas") for scale in ("karras", "exponential", "beta"))


def rounded(timesteps: Any, ours: list[float], config: dict[str, Any]) -> list[float]:
    """Return diffusers' timesteps as NumPy 1 has them.

    Of exponential and beta sigmas NumPy 2 computes 998.99998, which solvers with whole timesteps cut to 998.
    Where the last sigma of training is below those before, the rounding of a logarithm decides the first.
    """
    found: list[float] = timesteps.tolist()
    if not spaced(config) or np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return found
    if config.get("rescale_betas_zero_snr"):
        found[0] = ours[0]
    return [own if own == each + 1 else each for each, own in zip(found, ours, strict=True)]


def diffusers_scheduler(
    config: dict[str, Any], steps: int, kind: str, strength: float | None
) -> tuple[Any, Any]:
    """Return a scheduler of diffusers and the timesteps that an image of a strength keeps; None: all."""
    import diffusers

    theirs = made(diffusers_class(KINDS[kind]), config)
    if config.get("keeps_all_steps") and strength is not None and kind == "lcm":
        theirs.set_timesteps(steps, strength=strength)
        return theirs, theirs.timesteps
    theirs.set_timesteps(steps)
    if strength is None:
        if hasattr(theirs, "set_begin_index"):
            theirs.set_begin_index(0)
        return theirs, theirs.timesteps
    pipeline: Any = SimpleNamespace(scheduler=theirs)
    kept = diffusers.StableDiffusionImg2ImgPipeline.get_timesteps(pipeline, steps, strength, "cpu")
    return theirs, kept[0]


def made(kind: Any, config: dict[str, Any]) -> Any:
    """Return a scheduler of diffusers, a copy of the one that was made first with the same settings."""
    return deepcopy(_made(kind, json.dumps(config, sort_keys=True)))


@cache
def _made(kind: Any, config: str) -> Any:
    """Return a new scheduler; some compute all training timesteps when made, here a few of them.

    Whoever draws calls `set_timesteps` again, which replaces them.
    """
    compute = kind.set_timesteps

    def few(scheduler: Any, steps: int, *more: Any, **named: Any) -> None:
        compute(scheduler, min(steps, 8), *more, **named)

    with mock.patch.object(kind, "set_timesteps", few):
        return kind.from_config(json.loads(config))


def diffusers_class(name: str) -> Any:
    """Return a class of diffusers; that of DPMSolverSDEScheduler without torchsde, which only draws noise."""
    import diffusers

    if name != "DPMSolverSDEScheduler":
        return getattr(diffusers, name)
    sys.modules.setdefault("torchsde", ModuleType("torchsde"))
    return getattr(import_module("diffusers.schedulers.scheduling_dpmsolver_sde"), name)


def steps_of_any_numbers() -> StepTable:
    """Return steps with everything that a step can have, one of them without clean latents."""
    random = np.random.default_rng(4)
    names = ("latent", "output", "clean", "saved", "noise", "scale", "signal", "sigma")
    steps = []
    for i, clip in enumerate((None, 0.5, 0.25, None, 0.1, None, 1.0)):
        numbers = dict(zip(names, random.normal(size=8).tolist(), strict=True))
        history, save = random.normal(size=i % 4).tolist(), random.normal(size=(5 * i) % 8).tolist()
        step = Step(float(i), **numbers, clip=clip, history=tuple(history), save=tuple(save))
        steps.append(replace(step, clean_latent=0.7, clean_output=-0.4))
    steps[2] = replace(steps[2], kept_latent=0.3, kept_output=-1.1)
    steps[3] = replace(steps[3], clean_latent=0.0, clean_output=0.0)
    steps[4] = replace(steps[4], noise=0.0, kept_output=0.8)
    return step_table(steps, 1.5)


class Paths:
    """The noise on one Brownian path for each step of two runs: a part of the second is that of the first."""

    def __init__(self, table: StepTable) -> None:
        self._table = table
        self._first: Float = np.zeros(())

    def sampled(self, i: int, added: Float) -> Float:
        """Return a path's noise at run `i`, whose own part is `added`; of the whole step for a second."""
        if i % 2 == 0:
            self._first = added
            return added
        end, sigma = self._table.steps[i].sigma, self._table.steps[i - 1].sigma
        share = (sigma - np.sqrt(sigma * end)) / (sigma - end)
        return np.float32(np.sqrt(share)) * self._first + np.float32(np.sqrt(1 - share)) * added


def stepped(theirs: Any, output: Float, timestep: Any, latent: Float, added: Float, **eta: float) -> Float:
    """Return the next latents by a scheduler of diffusers, which adds the noise `added` where it adds any."""
    import torch

    def drawn(*shape: Any, **settings: Any) -> Any:
        return torch.from_numpy(added)

    theirs.noise_sampler = drawn
    with mock.patch(f"{type(theirs).__module__}.randn_tensor", drawn, create=True):
        step = theirs.step(torch.from_numpy(output), timestep, torch.from_numpy(latent), **eta)
    result: Float = step.prev_sample.numpy()
    return result


def difference(ours: Float, theirs: Float, *others: Float) -> float:
    """Return the largest difference relative to the largest number, at least 1, of `theirs` and `others`."""
    assert (ours.dtype, ours.shape) == (np.float32, theirs.shape)
    largest = max(1.0, *(float(np.abs(each).max()) for each in (theirs, *others)))
    return float(np.abs(ours - theirs).max()) / largest

"""Schedulers by name, read from any diffusers scheduler_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msd.bundle import Bundle
from msd.errors import BadConfig
from msd.files import bounded
from msd.run.runtime.ddim import Ddim
from msd.run.runtime.diffusion import Diffusion, settings_in
from msd.run.runtime.dpm_solver import DpmSolver
from msd.run.runtime.euler import Euler
from msd.run.runtime.euler_ancestral import EulerAncestral
from msd.run.runtime.lcm import Lcm
from msd.run.runtime.tcd import Tcd

Scheduler = Ddim | DpmSolver | Euler | EulerAncestral | Lcm | Tcd

SCHEDULERS: dict[str, type[Scheduler]] = {
    "ddim": Ddim,
    "dpm++": DpmSolver,
    "euler": Euler,
    "euler-a": EulerAncestral,
    "lcm": Lcm,
    "tcd": Tcd,
}
BY_CLASS = {
    "DDIMScheduler": "ddim",
    "DPMSolverMultistepScheduler": "dpm++",
    "EulerDiscreteScheduler": "euler",
    "EulerAncestralDiscreteScheduler": "euler-a",
    "LCMScheduler": "lcm",
    "TCDScheduler": "tcd",
}
DEFAULT = "ddim"
"""The scheduler for configurations of unsupported classes, such as PNDM's."""


def name_of(config: Mapping[str, Any]) -> str:
    """Return the name of the scheduler that wrote a configuration, or else `DEFAULT`."""
    return BY_CLASS.get(str(config.get("_class_name")), DEFAULT)


def name_of_kind(scheduler: Scheduler) -> str:
    """Return the name of a scheduler."""
    return next(name for name, kind in SCHEDULERS.items() if isinstance(scheduler, kind))


def make_scheduler(config: Mapping[str, Any], name: str | None = None) -> Scheduler:
    """Return the scheduler `name`, or the configuration's own, for Stable Diffusion; raises BadConfig.

    Two settings are those that diffusers' StableDiffusionPipeline insists on: latents are not images, so
    they are never clipped to ±1; "leading" timesteps start at 1.
    """
    name = name_of(config) if name is None else name
    if name not in SCHEDULERS:
        raise BadConfig(f"no scheduler is called {name!r}; there are {', '.join(SCHEDULERS)}")
    return SCHEDULERS[name].from_config({**config, "clip_sample": False, "steps_offset": 1})


def require_valid(config: Mapping[str, Any]) -> None:
    """Raise BadConfig where no scheduler could be made of a configuration: a setting has a wrong type.

    A setting that only its own scheduler lacks is fine, for another may generate the images.
    """
    Diffusion.from_config(config).alphas()
    for kind in SCHEDULERS.values():
        settings_in(kind, config)


def open_scheduler(folder: Path, name: str | None = None) -> Scheduler:
    """Return the scheduler of a checkpoint's or a bundle's `scheduler/`, or `name` in its place.

    Raises BadConfig.
    """
    path = folder / "scheduler_config.json"
    try:
        config = bounded.read_json(path)
        if not isinstance(config, dict):
            raise BadConfig(f"it holds {type(config).__name__}, not an object")
        return make_scheduler(config, name)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from error
    except (OSError, ValueError) as error:
        raise BadConfig(f"cannot read {path}: {error}") from error


def bundle_scheduler(bundle: Bundle, name: str | None = None) -> Scheduler:
    """Return the scheduler of a bundle, or `name` in its place; raises BadBundle and BadConfig.

    A U-Net that takes the guidance scale is a whole latent consistency model, for which diffusers has a
    pipeline of its own: it keeps all steps when it begins with an image.
    """
    scheduler = open_scheduler(bundle.folder / "scheduler", name)
    if isinstance(scheduler, Lcm) and bundle.wiring.takes("guidance"):
        return replace(scheduler, keeps_all_steps=True)
    return scheduler

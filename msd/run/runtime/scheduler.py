"""Schedulers by name, read from any diffusers scheduler_config.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from msd.bundle import Bundle
from msd.errors import BadConfig, BadValue
from msd.files import bounded
from msd.files.nearest import nearest
from msd.models.families import Family
from msd.run.runtime.ddim import Ddim
from msd.run.runtime.ddpm import Ddpm
from msd.run.runtime.deis import Deis
from msd.run.runtime.diffusion import Diffusion, settings_in, without
from msd.run.runtime.dpm_sde import DpmSde
from msd.run.runtime.dpm_single_step import DpmSingleStep
from msd.run.runtime.dpm_solver import DpmSolver
from msd.run.runtime.euler import Euler
from msd.run.runtime.euler_ancestral import EulerAncestral
from msd.run.runtime.heun import Heun
from msd.run.runtime.kdpm2 import Kdpm2, Kdpm2Ancestral
from msd.run.runtime.lcm import Lcm
from msd.run.runtime.lms import Lms
from msd.run.runtime.pndm import Pndm
from msd.run.runtime.tcd import Tcd
from msd.run.runtime.unipc import UniPC

Scheduler = (
    Ddim
    | Ddpm
    | Deis
    | DpmSde
    | DpmSingleStep
    | DpmSolver
    | Euler
    | EulerAncestral
    | Heun
    | Kdpm2
    | Kdpm2Ancestral
    | Lcm
    | Lms
    | Pndm
    | Tcd
    | UniPC
)

SCHEDULERS: dict[str, type[Scheduler]] = {
    "ddim": Ddim,
    "ddpm": Ddpm,
    "deis": Deis,
    "dpm++": DpmSolver,
    "dpm++-2s": DpmSingleStep,
    "dpm++-sde": DpmSde,
    "dpm2": Kdpm2,
    "dpm2-a": Kdpm2Ancestral,
    "euler": Euler,
    "euler-a": EulerAncestral,
    "heun": Heun,
    "lcm": Lcm,
    "lms": Lms,
    "pndm": Pndm,
    "tcd": Tcd,
    "unipc": UniPC,
}
BY_CLASS = {
    "DDIMScheduler": "ddim",
    "DDPMScheduler": "ddpm",
    "DEISMultistepScheduler": "deis",
    "DPMSolverMultistepScheduler": "dpm++",
    "DPMSolverSinglestepScheduler": "dpm++-2s",
    "DPMSolverSDEScheduler": "dpm++-sde",
    "KDPM2DiscreteScheduler": "dpm2",
    "KDPM2AncestralDiscreteScheduler": "dpm2-a",
    "EulerDiscreteScheduler": "euler",
    "EulerAncestralDiscreteScheduler": "euler-a",
    "HeunDiscreteScheduler": "heun",
    "LCMScheduler": "lcm",
    "LMSDiscreteScheduler": "lms",
    "PNDMScheduler": "pndm",
    "TCDScheduler": "tcd",
    "UniPCMultistepScheduler": "unipc",
}
LATENTS = {"clip_sample": False, "steps_offset": 1}
"""What diffusers' StableDiffusionPipeline puts in place of a configuration's settings.

Latents are not images, so that they are never clipped to ±1; "leading" timesteps start at 1. XL's pipeline
and that of InstructPix2Pix leave both as they are.
"""

SAME_STEPS = {"DDIMParallelScheduler": "ddim", "DDPMParallelScheduler": "ddpm"}
"""Classes of diffusers whose steps are those of another class."""

SCALES = {
    "karras": "use_karras_sigmas",
    "exponential": "use_exponential_sigmas",
    "beta": "use_beta_sigmas",
    "lu": "use_lu_lambdas",
}
"""The settings that NAME+SCALE sets, by SCALE."""

DEFAULT = "ddim"
"""The scheduler of a configuration that names no class."""

ACTIVE_SETTINGS = (*SCALES.values(), "use_flow_sigmas", "rescale_betas_zero_snr")
"""Settings that change the schedule where a scheduler has them, and are false by default."""

OWN_SPACING = "linspace"
"""The timestep spacing of schedulers that read none."""

THRESHOLDING = ("ddim", "ddpm", "deis", "dpm++", "dpm++-2s", "lcm", "unipc")
"""The schedulers whose classes in diffusers limit the clean latents where `thresholding` is true.

TCD's has the setting and reads it nowhere, and UniPC's reads it where it predicts clean latents.
"""


def name_of(config: Mapping[str, Any]) -> str:
    """Return the name of the scheduler that wrote a configuration; raises BadConfig for an unknown one."""
    kind = config.get("_class_name")
    name = DEFAULT if kind is None else (BY_CLASS | SAME_STEPS).get(str(kind))
    if name is None:
        raise BadConfig(
            f"the scheduler {kind} is not supported; --scheduler takes one of {', '.join(SCHEDULERS)}"
        )
    return name


def name_of_kind(scheduler: Scheduler) -> str:
    """Return the name of a scheduler, with its scale of sigmas where it has one: "heun+karras"."""
    name = next(name for name, kind in SCHEDULERS.items() if type(scheduler) is kind)
    scales = [scale for scale, setting in SCALES.items() if getattr(scheduler, setting, False)]
    return "+".join([name, *scales[:1]])


def parse_name(text: str) -> tuple[str, dict[str, bool]]:
    """Return the name in NAME or NAME+SCALE, such as "heun+karras", and the settings of the scale.

    Raises BadValue for an unknown name, or a scale that this scheduler does not have.
    """
    if not isinstance(text, str):
        raise BadValue(f"the scheduler is {text!r}; its name was expected")
    name, plus, scale = text.rpartition("+")
    if text in SCHEDULERS or not plus or scale not in SCALES:
        name, scale = text, ""
    if name not in SCHEDULERS:
        names = ", ".join(SCHEDULERS)
        raise BadValue(f"no scheduler is called {name!r}; there are {names}{nearest(name, SCHEDULERS)}")
    if not scale:
        return name, {}
    own = [each for each, setting in SCALES.items() if setting in _settings_of(SCHEDULERS[name])]
    if scale not in own:
        known = f"; it has {', '.join(own)}" if own else ""
        raise BadValue(f"the scheduler {name} has no {scale} sigmas{known}")
    return name, {setting: each == scale for each, setting in SCALES.items() if each in own}


def ignored_settings(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings that would change the schedule, and that a configuration's scheduler does not read.

    Diffusers' class does not read them either. Raises BadConfig for an unknown scheduler.
    """
    kind = SCHEDULERS[name_of(config)]
    lacks = {*getattr(kind, "lacks", ())}
    own = {*_settings_of(kind), *_settings_of(Diffusion)} - lacks
    ignored = [name for name in ACTIVE_SETTINGS if config.get(name) is True and name not in own]
    if config.get("thresholding") is True and not _thresholds(config, name_of(config)):
        ignored.append("thresholding")
    if "timestep_spacing" in lacks and config.get("timestep_spacing", OWN_SPACING) != OWN_SPACING:
        ignored.append("timestep_spacing")
    return tuple(ignored)


def refuse_thresholding(config: Mapping[str, Any], name: str | None = None) -> None:
    """Raise BadConfig where the scheduler `name`, or a configuration's own, would limit clean latents."""
    if config.get("thresholding") and _thresholds(config, name or name_of(config)):
        raise BadConfig("thresholding is for diffusion on pixels and not supported; it should be false")


def _thresholds(config: Mapping[str, Any], name: str) -> bool:
    """Whether the scheduler `name` reads `thresholding` in a configuration."""
    return name in THRESHOLDING and not (name == "unipc" and config.get("predict_x0") is False)


def faults_of(name: str, prediction: str) -> Iterator[str]:
    """Yield a sentence on a fault that the scheduler `name` has with a network's kind of `prediction`."""
    if (name, prediction) == ("pndm", "v_prediction"):
        yield (
            "the scheduler pndm adds up velocities as if they were noise, as diffusers' does (its issue"
            " 14816), so that its images are hardly more exact than ddim's; another one, such as dpm++, is"
            " more exact"
        )


def _settings_of(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def insisted_settings(family: Family) -> Mapping[str, Any]:
    """Return the settings that the pipeline of a family puts in place of a configuration's.

    XL's, whose denoiser is told sizes, puts none.
    """
    told = {source.of for source in family.sources(family.denoiser.name)}
    return {} if "sizes" in told else LATENTS


def make_scheduler(
    config: Mapping[str, Any], name: str | None = None, insisted: Mapping[str, Any] = LATENTS
) -> Scheduler:
    """Return the scheduler `name`, or the configuration's own, for Stable Diffusion; raises BadConfig.

    `name` is one of `SCHEDULERS`, or one with a scale of sigmas, such as "heun+karras". `insisted` are the
    settings that the model's pipeline replaces (`insisted_settings`).
    """
    name, scale = (name_of(config), {}) if name is None else parse_name(name)
    made = SCHEDULERS[name].from_config({**config, **scale, **insisted})
    refuse_thresholding(config, name)
    return made


def require_valid(config: Mapping[str, Any]) -> None:
    """Raise BadConfig where no scheduler could be made of a configuration: a setting has a wrong type.

    A setting that only its own scheduler lacks is fine, for another may generate the images.
    """
    Diffusion.from_config(config).alphas()
    for kind in SCHEDULERS.values():
        settings_in(kind, config)


def open_scheduler(
    folder: Path,
    name: str | None = None,
    insisted: Mapping[str, Any] = LATENTS,
    known: Mapping[str, Any] | None = None,
) -> Scheduler:
    """Return the scheduler of a checkpoint's or a bundle's `scheduler/`, or `name` in its place.

    `insisted` is that of `make_scheduler`; `known`, if there is any, takes the place of the file. Raises
    BadConfig.
    """
    path = folder / "scheduler_config.json"
    if name is not None:
        parse_name(name)  # a name that nothing has is not the file's fault
    try:
        config = dict(known) if known else bounded.read_json(path)
        if not isinstance(config, dict):
            raise BadConfig(f"it holds {type(config).__name__}, not an object")
        return make_scheduler(config, name, insisted)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from error
    except (OSError, ValueError) as error:
        raise BadConfig(f"cannot read {path}: {error}") from error


def bundle_scheduler(bundle: Bundle, name: str | None = None) -> Scheduler:
    """Return the scheduler of a bundle, or `name` in its place; raises BadBundle and BadConfig.

    A U-Net that takes the guidance scale is a whole latent consistency model, for which diffusers has a
    pipeline of its own: it keeps all steps when it begins with an image. The pipeline of a model that edits
    images insists on no settings, and that of one that repaints lets latents be clipped.
    """
    insisted = {} if bundle.wiring.edited else insisted_settings(bundle.family)
    if "mask" in bundle.wiring.needed_pixels:
        insisted = without(insisted, ("clip_sample",))
    scheduler = open_scheduler(bundle.folder / "scheduler", name, insisted, bundle.manifest.scheduler)
    if isinstance(scheduler, Lcm) and bundle.wiring.takes("guidance"):
        return replace(scheduler, keeps_all_steps=True)
    return scheduler

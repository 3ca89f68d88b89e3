"""The scheduler that a bundle gets, and the steps and guidance of its images.

A few-step LoRA is for a schedule of its own, which its file does not contain.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from msd.bundle import ImageDefaults
from msd.conversion.few_steps import FewSteps, few_steps_named
from msd.conversion.settings import Settings
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.repainting import repainted
from msd.errors import BadConfig
from msd.files import schema
from msd.files.wording import counted
from msd.run.runtime.diffusion import Diffusion
from msd.run.runtime.scheduler import BY_CLASS, SCHEDULERS, make_scheduler, parse_name

EXPECTED: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
}
DIFFUSION_SETTINGS = ("rescale_betas_zero_snr",)
"""The settings of the diffusion that a schedule may change; the others belong to the weights."""

FIXED = ("diffusion", "clip_sample", "clip_sample_range", "steps_offset", "keeps_all_steps")
"""The settings that are not chosen: Stable Diffusion's pipelines fix them, or the U-Net decides."""

UNSPELLED = ("disable_corrector", "solver_p", "use_flow_sigmas", "use_dynamic_shifting")
"""Those that one word cannot say, or that are not supported."""

OTHER_NOISE_OF = {"EDM": "EDM", "FlowMatch": "flow matching", "CMStochastic": "a consistency model"}
OTHER_NOISE = re.compile(f"({'|'.join(OTHER_NOISE_OF)})")
"""Schedulers of diffusers whose networks take latents, times and noise of another kind."""

FEW_STEPS = 4
"""The steps of distilled models, as in their model cards and in diffusers' pipeline for LCM."""

EMBEDDED_GUIDANCE = 8.5
"""The guidance of a U-Net that takes the scale; the default of diffusers' LatentConsistencyModelPipeline."""


def few_steps_of(checkpoint: Checkpoint, settings: Settings) -> FewSteps | None:
    """Return the kind of few-step model that `--scheduler` names, or without it the checkpoint's name."""
    if settings.scheduler is None:
        return checkpoint.few_steps and checkpoint.few_steps.of(settings.steps)
    return few_steps_named(settings.scheduler, settings.steps)


def scheduled(checkpoint: Checkpoint, settings: Settings) -> Checkpoint:
    """Return the checkpoint with the scheduler that is asked for, or that its file's name tells.

    What a name tells is said, and so is what an adapter's name asks for: it does not decide, for it may be
    one of several. Numbers are those that JSON has, and so the manifest. Raises what `scheduler_config` does.
    """
    kind = few_steps_of(checkpoint, settings)
    choice = kind.scheduler if kind else settings.scheduler
    told = tuple(_told(checkpoint, kind) if settings.scheduler is None else ())
    own, replaced = repainted(checkpoint.scheduler) if _repaints(checkpoint) else (checkpoint.scheduler, ())
    scheduler = schema.to_json(scheduler_config(own, choice))
    if kind and kind.prediction:
        scheduler["prediction_type"] = kind.prediction
    return replace(checkpoint, scheduler=scheduler, remarks=(*checkpoint.remarks, *replaced, *told))


def _repaints(checkpoint: Checkpoint) -> bool:
    """Whether the denoiser takes a mask and a masked image beside its latents."""
    unet = checkpoint.configs[checkpoint.family.denoiser.name]
    latents = getattr(unet, "out_channels", None)
    return latents is not None and unet.in_channels == 2 * latents + 1


def _told(checkpoint: Checkpoint, kind: FewSteps | None) -> Iterator[str]:
    """Yield what names of files tell of schedules, a sentence each."""
    if kind:
        name = checkpoint.few_steps_by or checkpoint.name
        yield (
            f"{name} is {kind.title} by its name, so that its images take the scheduler {kind.scheduler},"
            f" {counted(kind.steps, 'step')} and guidance {kind.guidance:g}; --scheduler takes"
            " another"
        )
    for name, adapter in checkpoint.few_step_adapters.items():
        yield (
            f"{name} is {adapter.title} by its name, and was made for {adapter.options}; without these the"
            f" scheduler stays {BY_CLASS.get(str(checkpoint.scheduler.get('_class_name')), 'as it is')}"
        )


def scheduler_config(config: Mapping[str, Any], choice: str | None) -> dict[str, Any]:
    """Return the configuration of the scheduler `choice`, NAME[+SCALE][:SETTING=VALUE,…], on a checkpoint's.

    As diffusers' `from_config`, it keeps what the checkpoint's configuration says and the choice does not;
    None keeps all. Raises BadConfig for an unknown scheduler or setting, or an impossible value.
    """
    if choice is None:
        return dict(config)
    if objection := other_noise(config):
        raise BadConfig(objection)
    spelled, _, settings = choice.partition(":")
    name, scale = parse_name(spelled)
    classes = {ours: theirs for theirs, ours in BY_CLASS.items()}
    chosen = {**config, "_class_name": classes[name], **scale, **_settings(name, settings)}
    make_scheduler(chosen)
    return chosen


def other_noise(config: Mapping[str, Any]) -> str | None:
    """Return a clause on a scheduler whose U-Net was trained with noise of another kind, None for others."""
    own = OTHER_NOISE.match(str(config.get("_class_name")))
    if own is None:
        return None
    return (
        f"the checkpoint's scheduler is {own.string}: its U-Net was trained with the noise of"
        f" {OTHER_NOISE_OF[own[1]]}, which no scheduler here follows: --scheduler cannot replace it"
    )


def image_defaults(config: Mapping[str, Any], takes_guidance: bool) -> ImageDefaults:
    """Return the defaults of a model with this scheduler; `takes_guidance` if its U-Net takes the scale.

    Distilled models are known by their scheduler: latent and trajectory consistency models have one of their
    own, and SD-Turbo's and SDXL-Turbo's are Euler's method, the latter's ancestral, with trailing timesteps
    for a U-Net that predicts noise.
    """
    name = BY_CLASS.get(str(config.get("_class_name")))
    is_turbo = name in ("euler", "euler-a") and config.get("timestep_spacing") == "trailing"
    predicts_noise = config.get("prediction_type", "epsilon") == "epsilon"
    if name in ("lcm", "tcd") or (is_turbo and predicts_noise):
        return ImageDefaults(FEW_STEPS, EMBEDDED_GUIDANCE if takes_guidance else 1.0)
    return ImageDefaults()


def _settings(name: str, text: str) -> dict[str, Any]:
    known = known_settings(name)
    settings: dict[str, Any] = {}
    for setting in text.split(",") if text else ():
        key, equals, value = setting.partition("=")
        if key not in known or not equals:
            raise BadConfig(
                f"the scheduler {name} has no setting {setting!r}; write NAME=VALUE with one of"
                f" {', '.join(known)}"
            )
        settings[key] = _value(key, known[key], value)
    return settings


def known_settings(name: str) -> dict[str, type]:
    """Return the settings that may be chosen of a scheduler, with their types."""
    kind = SCHEDULERS[name]
    types = {**typing.get_type_hints(kind), **typing.get_type_hints(Diffusion)}
    left_out = (*FIXED, *UNSPELLED, *getattr(kind, "lacks", ()))
    names = [*(field.name for field in fields(kind)), *DIFFUSION_SETTINGS]
    return {name: _plain(types[name]) for name in names if name not in left_out}


def _plain(hint: Any) -> type:
    """Return a type, without None beside it."""
    plain: type = next((each for each in typing.get_args(hint) if each is not type(None)), hint)
    return plain


def _value(key: str, kind: type, text: str) -> Any:
    """Return the value in `text`, of the type `kind`."""
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise BadConfig(f"{key} of --scheduler is {text!r}; {EXPECTED[kind]} was expected") from None

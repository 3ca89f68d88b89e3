"""The diffusion that a network was trained on: the noise of each timestep, and the prediction type.

Ho, Jain and Abbeel, "Denoising Diffusion Probabilistic Models" (2020, arXiv 2006.11239); zero terminal SNR
after Lin et al. (2023, arXiv 2305.08891), algorithm 1. Rounded as diffusers' schedulers round.
"""

from __future__ import annotations

import math
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from msd.errors import BadConfig
from msd.files import schema
from msd.files.wording import counted, plural
from msd.run.runtime.arrays import Double, Float

MAX_BETA = 0.999
MOST_TIMESTEPS = 10_000
LARGEST = 1e6
"""The largest number of a configuration."""
NO_LIMIT = -sys.float_info.max
"""What a manifest has for minus infinity, diffusers' `lambda_min_clipped` of its DPM-Solvers."""
LEAST_ALPHA = 2.0**-24
"""The substitute for an alpha of zero in sigmas: without it, the first sigma would be infinite."""


@dataclass(frozen=True)
class Diffusion:
    """The part of a scheduler_config.json that every scheduler shares, with diffusers' defaults."""

    num_train_timesteps: int = 1000
    beta_start: float = 0.0001
    beta_end: float = 0.02
    beta_schedule: str = "linear"
    trained_betas: tuple[float, ...] | None = None
    prediction_type: str = "epsilon"
    rescale_betas_zero_snr: bool = False
    thresholding: bool = False

    def __post_init__(self) -> None:
        require("beta_schedule", self.beta_schedule, BETAS)
        require("prediction_type", self.prediction_type, PREDICTIONS)
        if not 2 <= self.num_train_timesteps <= MOST_TIMESTEPS:
            raise BadConfig(
                f"num_train_timesteps is {self.num_train_timesteps}; 2 to {MOST_TIMESTEPS} were expected"
            )
        if self.trained_betas is not None and len(self.trained_betas) != self.num_train_timesteps:
            raise BadConfig(
                f"trained_betas has {len(self.trained_betas)}; there are {self.num_train_timesteps}"
            )
        for beta in self.trained_betas or (self.beta_start, self.beta_end):
            if not 0 < beta < 1:
                raise BadConfig(f"a beta is {beta:g}; numbers between 0 and 1 were expected")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Diffusion:
        """Return the diffusion in a configuration, whatever class wrote it."""
        return Diffusion(**settings_in(Diffusion, config))

    def alphas(self) -> Double:
        """Return the running products of 1 − β, one per training timestep, rounded to float32."""
        betas = self._betas()
        if self.rescale_betas_zero_snr:
            betas = _rescale_to_zero_snr(betas)
        alphas = np.cumprod((1 - betas).astype(np.float64)).astype(np.float32).astype(np.float64)
        if not alphas[0] < 1 or not np.all(alphas[:-1] > 0) or alphas[-1] < 0:
            raise BadConfig("its betas leave no signal, or no noise, at some timestep")
        return alphas

    def sigmas(self) -> Double:
        """Return √((1 − ᾱ) / ᾱ) per training timestep: the noise relative to a signal of size 1."""
        alphas = self.alphas()
        if self.rescale_betas_zero_snr:
            alphas[-1] = LEAST_ALPHA
        sigmas: Double = np.sqrt((1 - alphas) / alphas)
        return sigmas

    def clean_and_noise(self, alpha: float, timestep: float) -> tuple[Pair, Pair]:
        """Return the clean latents and the noise, each as coefficients of (latents, the network's output)."""
        return PREDICTIONS[self.prediction_type](timestep, alpha)

    def require_steps(self, steps: int) -> None:
        """Raise BadConfig for a number of steps that no scheduler can take."""
        if not 1 <= steps <= self.num_train_timesteps:
            raise BadConfig(f"{impossible(steps)}: this model can take 1 to {self.num_train_timesteps}")

    def _betas(self) -> Float:
        if self.trained_betas is not None:
            return np.array(self.trained_betas, np.float32)
        return BETAS[self.beta_schedule](self.beta_start, self.beta_end, self.num_train_timesteps)


def settings_in(kind: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `config` that are fields of the dataclass `kind`, but for a `Diffusion`.

    Raises BadConfig for a value of another type than the field's, and for numbers beyond ±`LARGEST`, but for
    minus infinity.
    """
    types = typing.get_type_hints(kind)
    present = [
        field.name for field in fields(kind) if field.name in config and types[field.name] != Diffusion
    ]
    try:
        values = {
            name: schema.read(types[name], _not_null(types[name], config[name]), name) for name in present
        }
    except ValueError as problem:
        raise BadConfig(str(problem)) from problem
    for name, value in values.items():
        if isinstance(value, int | float) and not (abs(value) <= LARGEST or value <= NO_LIMIT):
            raise BadConfig(f"{name} is {value:g}; a number up to {LARGEST:g} was expected")
    return values


def _not_null(kind: type, value: object) -> object:
    """Return a value, false for null where true or false was expected: so Python takes it."""
    return False if value is None and kind is bool else value


def without(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a configuration without the settings that diffusers' class for a scheduler does not read."""
    return {name: value for name, value in config.items() if name not in names}


NO_RESCALING = ("rescale_betas_zero_snr",)
"""What diffusers' older schedulers do not read."""


def impossible(steps: int) -> str:
    """Return the clause that begins a refusal of a number of steps."""
    return f"{counted(steps, 'step')} {plural(steps, 'is', 'are')} impossible"


def require(name: str, value: object, known: Mapping[str, object] | tuple[str, ...]) -> None:
    """Raise BadConfig unless `value` is one of the known ones."""
    if value not in known:
        raise BadConfig(f"{name} {value!r} is not known; known are {', '.join(known)}")


def refuse(scheduler: object, *names: str) -> None:
    """Raise BadConfig where any of these settings is enabled."""
    for name in names:
        if getattr(scheduler, name):
            raise BadConfig(f"{name} is not supported; it should be false")


def _linear(start: float, end: float, count: int) -> Float:
    """Return torch.linspace in float32, bit by bit: computed from both ends to the middle, rounded once."""
    first, last = np.float32(start), np.float32(end)
    step = np.float64((last - first) / np.float32(count - 1))
    i = np.arange(count)
    return np.where(i < count / 2, first + step * i, last - step * (count - 1 - i)).astype(np.float32)


def _scaled_linear(start: float, end: float, count: int) -> Float:
    return np.square(_linear(start**0.5, end**0.5, count))


def _cosine(start: float, end: float, count: int) -> Float:
    """Return the cosine schedule of Nichol and Dhariwal (2021, arXiv 2102.09672, formula 17)."""
    bar = [math.cos((i / count + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(count + 1)]
    return np.array([min(1 - b / a, MAX_BETA) for a, b in pairwise(bar)], np.float32)


def _rescale_to_zero_snr(betas: Float) -> Float:
    roots = np.sqrt(np.cumprod((1 - betas).astype(np.float64)).astype(np.float32))
    roots = (roots - roots[-1]) * (roots[0] / (roots[0] - roots[-1]))
    bar = np.square(roots)
    rescaled: Float = 1 - np.concatenate([bar[:1], bar[1:] / bar[:-1]])
    return rescaled


Pair = tuple[float, float]


def _epsilon(timestep: float, alpha: float) -> tuple[Pair, Pair]:
    if alpha <= 0:
        raise BadConfig(
            f"a model that predicts noise cannot start at timestep {timestep:g}, where all is noise"
        )
    return (1 / math.sqrt(alpha), -math.sqrt(1 - alpha) / math.sqrt(alpha)), (0.0, 1.0)


def _sample(timestep: float, alpha: float) -> tuple[Pair, Pair]:
    return (0.0, 1.0), (1 / math.sqrt(1 - alpha), -math.sqrt(alpha) / math.sqrt(1 - alpha))


def _velocity(timestep: float, alpha: float) -> tuple[Pair, Pair]:
    signal, noise = math.sqrt(alpha), math.sqrt(1 - alpha)
    return (signal, -noise), (noise, signal)


BETAS = {"linear": _linear, "scaled_linear": _scaled_linear, "squaredcos_cap_v2": _cosine}
PREDICTIONS = {"epsilon": _epsilon, "sample": _sample, "v_prediction": _velocity}

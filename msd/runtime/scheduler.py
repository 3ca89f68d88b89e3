"""DDIM as a table: which timesteps, and what each step does to the latents.

Song, Meng and Ermon, "Denoising Diffusion Implicit Models" (2020, arXiv 2010.02502), formula (12) with
eta = 0; zero terminal SNR and the timestep spacings after Lin et al. (2023, arXiv 2305.08891), algorithm 1
and table 2.
Read from any diffusers scheduler_config.json, as `diffusers.DDIMScheduler.from_config` reads it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msd.errors import BadConfig

Float = npt.NDArray[np.float32]
MAX_BETA = 0.999


@dataclass(frozen=True)
class Step:
    """What one step makes of latents x and the model's output o: a·x + b·o, with a = `latent`, b = `output`.

    Where the clean picture is clipped: a·x + b·o + c·clip(d·x + e·o), with c = `clean`, d = `clean_latent`,
    e = `clean_output`, cut to ±`clip`.
    """

    timestep: int
    latent: float
    output: float
    clean: float = 0.0
    clean_latent: float = 0.0
    clean_output: float = 0.0
    clip: float | None = None

    def apply(self, latent: Float, output: Float) -> Float:
        """Return the next latents, float32 of the same shape; `output` is what the model said of `latent`."""
        following: Float = np.float32(self.latent) * latent + np.float32(self.output) * output
        if self.clip is None:
            return following
        clean = np.float32(self.clean_latent) * latent + np.float32(self.clean_output) * output
        following += np.float32(self.clean) * np.clip(clean, -self.clip, self.clip)
        return following


@dataclass(frozen=True)
class Scheduler:
    """What DDIM reads of a scheduler_config.json, with the defaults of diffusers' DDIMScheduler."""

    num_train_timesteps: int = 1000
    beta_start: float = 0.0001
    beta_end: float = 0.02
    beta_schedule: str = "linear"
    trained_betas: tuple[float, ...] | None = None
    clip_sample: bool = True
    clip_sample_range: float = 1.0
    set_alpha_to_one: bool = True
    steps_offset: int = 0
    prediction_type: str = "epsilon"
    timestep_spacing: str = "leading"
    rescale_betas_zero_snr: bool = False
    thresholding: bool = False

    def __post_init__(self) -> None:
        choices = (("beta_schedule", BETAS), ("prediction_type", PREDICTIONS), ("timestep_spacing", SPACINGS))
        for name, known in choices:
            if getattr(self, name) not in known:
                raise BadConfig(f"{name} {getattr(self, name)!r} is not known; known are {', '.join(known)}")
        if self.thresholding:
            raise BadConfig("thresholding is for diffusion on pixels and not supported; it should be false")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Scheduler:
        """Return DDIM with a configuration's settings, whatever class wrote it; others are ignored."""
        known = {name: config[name] for name in (f.name for f in fields(Scheduler)) if name in config}
        if known.get("trained_betas") is not None:
            known["trained_betas"] = tuple(known["trained_betas"])
        return Scheduler(**known)

    @staticmethod
    def for_stable_diffusion(config: Mapping[str, Any]) -> Scheduler:
        """Return `from_config` with the two settings that diffusers' StableDiffusionPipeline insists on.

        Latents are no pictures, so they are never clipped to ±1; "leading" timesteps start at 1.
        """
        return Scheduler.from_config({**config, "clip_sample": False, "steps_offset": 1})

    def alphas(self) -> npt.NDArray[np.float64]:
        """Return the running products of 1 − β, one per training timestep, rounded to float32."""
        betas = self._betas()
        if self.rescale_betas_zero_snr:
            betas = _rescale_to_zero_snr(betas)
        return np.cumprod((1 - betas).astype(np.float64)).astype(np.float32).astype(np.float64)

    def timesteps(self, steps: int) -> list[int]:
        """Return the training timesteps that `steps` steps visit, noisiest first; raises BadConfig."""
        total = self.num_train_timesteps
        if not 1 <= steps <= total:
            raise BadConfig(f"{steps} steps are impossible: this model can take 1 to {total}")
        chosen = SPACINGS[self.timestep_spacing](total, steps)
        if self.timestep_spacing == "leading":
            chosen = chosen + self.steps_offset
        if chosen[0] >= total:
            raise BadConfig(
                f"{steps} steps from offset {self.steps_offset} pass the last timestep {total - 1}"
            )
        return [int(t) for t in chosen]

    def table(self, steps: int) -> list[Step]:
        """Return the `steps` steps, in order. Raises BadConfig where the schedule makes a step impossible."""
        timesteps, alphas = self.timesteps(steps), self.alphas()
        last = 1.0 if self.set_alpha_to_one else float(alphas[0])
        stride = self.num_train_timesteps // steps
        following = [float(alphas[t - stride]) if t >= stride else last for t in timesteps]
        return [self._step(t, float(alphas[t]), f) for t, f in zip(timesteps, following, strict=True)]

    def _step(self, timestep: int, alpha: float, following: float) -> Step:
        (clean_x, clean_o), (noise_x, noise_o) = PREDICTIONS[self.prediction_type](timestep, alpha)
        clean, noise = math.sqrt(following), math.sqrt(1 - following)
        if self.clip_sample:
            clip = self.clip_sample_range
            return Step(timestep, noise * noise_x, noise * noise_o, clean, clean_x, clean_o, clip)
        return Step(timestep, clean * clean_x + noise * noise_x, clean * clean_o + noise * noise_o)

    def _betas(self) -> Float:
        if self.trained_betas is not None:
            return np.array(self.trained_betas, np.float32)
        return BETAS[self.beta_schedule](self.beta_start, self.beta_end, self.num_train_timesteps)


def open_scheduler(folder: Path) -> Scheduler:
    """Return the scheduler of a checkpoint's or a bundle's `scheduler/`; raises BadConfig."""
    path = folder / "scheduler_config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
        return Scheduler.for_stable_diffusion(config)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from error
    except (OSError, ValueError, TypeError) as error:
        raise BadConfig(f"cannot read {path}: {error}") from error


def _linear(start: float, end: float, count: int) -> Float:
    """Return what torch.linspace makes in float32, to the bit: from both ends to the middle, rounded once."""
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


def _leading(total: int, steps: int) -> npt.NDArray[np.int64]:
    return (np.arange(steps) * (total // steps))[::-1].astype(np.int64)


def _trailing(total: int, steps: int) -> npt.NDArray[np.int64]:
    chosen: npt.NDArray[np.int64] = np.round(np.arange(total, 0, -total / steps)).astype(np.int64) - 1
    return chosen


def _linspace(total: int, steps: int) -> npt.NDArray[np.int64]:
    return np.linspace(0, total - 1, steps).round()[::-1].astype(np.int64)


Pair = tuple[float, float]


def _epsilon(timestep: int, alpha: float) -> tuple[Pair, Pair]:
    if alpha <= 0:
        raise BadConfig(
            f"a model that predicts noise cannot start at timestep {timestep}, where all is noise"
        )
    return (1 / math.sqrt(alpha), -math.sqrt(1 - alpha) / math.sqrt(alpha)), (0.0, 1.0)


def _sample(timestep: int, alpha: float) -> tuple[Pair, Pair]:
    return (0.0, 1.0), (1 / math.sqrt(1 - alpha), -math.sqrt(alpha) / math.sqrt(1 - alpha))


def _velocity(timestep: int, alpha: float) -> tuple[Pair, Pair]:
    signal, noise = math.sqrt(alpha), math.sqrt(1 - alpha)
    return (signal, -noise), (noise, signal)


BETAS = {"linear": _linear, "scaled_linear": _scaled_linear, "squaredcos_cap_v2": _cosine}
SPACINGS = {"leading": _leading, "trailing": _trailing, "linspace": _linspace}
PREDICTIONS = {"epsilon": _epsilon, "sample": _sample, "v_prediction": _velocity}
"""The clean latents and the noise, each as coefficients of (latent, model output)."""

"""How much noise there is before each step, relative to a signal of size 1: diffusers' sigmas.

Those of the visited timesteps, or spaced evenly in another scale: Karras et al. (2022, arXiv 2206.00364,
formula 5), exponential and Lu et al. (2022, arXiv 2211.01095), both evenly in their logarithm, or by the
quantiles of a beta distribution (Lee et al. 2024, arXiv 2407.12173).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from msd.errors import BadConfig
from msd.files.packages import require_packages
from msd.files.wording import listed
from msd.run.runtime.arrays import Double
from msd.run.runtime.diffusion import Diffusion, require
from msd.run.runtime.spacing import SPACINGS, visited, visited_before_the_end

RHO = 7.0
BETA = 0.6
"""Both parameters of the beta distribution."""

LEAST_SIGMA = 1e-10
FINAL_SIGMAS = ("zero", "sigma_min")


@dataclass(frozen=True)
class NoiseLevels:
    """The timesteps of the steps, noisiest first, and their sigmas followed by the final one."""

    timesteps: list[float]
    sigmas: list[float]


@dataclass(frozen=True)
class SigmaSettings:
    """The settings in a scheduler_config.json that decide the noise before each step.

    `sigma_min` and `sigma_max` replace the ends of sigmas that are spaced in another scale; in Karras's not
    everywhere.
    """

    karras_has_ends: ClassVar[bool] = True

    diffusion: Diffusion = field(default_factory=Diffusion)
    timestep_spacing: str = "linspace"
    steps_offset: int = 0
    use_karras_sigmas: bool = False
    use_exponential_sigmas: bool = False
    use_beta_sigmas: bool = False
    sigma_min: float | None = None
    sigma_max: float | None = None

    def __post_init__(self) -> None:
        require("timestep_spacing", self.timestep_spacing, SPACINGS)
        if len(set_ := [name for name in SCALES if getattr(self, name)]) > 1:
            raise BadConfig(f"{listed(set_)} are both true; one was expected")
        if self.use_beta_sigmas:
            require_packages("a scheduler with beta sigmas", "regress", "scipy")
        for name in ("sigma_min", "sigma_max"):
            if (sigma := getattr(self, name)) is not None and not sigma > 0:
                raise BadConfig(f"{name} is {sigma:g}; a number above 0 was expected")

    def _respaced(self, noisiest: float, cleanest: float, steps: int) -> Double | None:
        """Return `steps` sigmas between two in the scale that is set, or None where none is."""
        for name, space in SCALES.items():
            if getattr(self, name):
                if self.karras_has_ends or not self.use_karras_sigmas:
                    noisiest, cleanest = self.sigma_max or noisiest, self.sigma_min or cleanest
                return space(noisiest, cleanest, steps)
        return None


@dataclass(frozen=True)
class VisitedSigmas(SigmaSettings):
    """Sigmas from that of the first visited timestep to that of the last one, and then none at all."""

    rounds_karras: ClassVar[bool] = False

    def levels(self, steps: int) -> NoiseLevels:
        """Return the levels of `steps` steps; raises BadConfig for an impossible number of them."""
        self.diffusion.require_steps(steps)
        training = self.diffusion.sigmas()
        total = self.diffusion.num_train_timesteps
        timesteps = visited(self.timestep_spacing, total, steps, self.steps_offset).astype(np.float32)
        sigmas = self._of_timesteps(timesteps.astype(np.float64), training)
        if (respaced := self._respaced(sigmas[0], sigmas[-1], steps)) is not None:
            sigmas, exact = respaced, timesteps_of(respaced, training)
            return self._levels(exact.round() if self._rounds else exact, sigmas, training)
        return self._levels(timesteps.astype(np.float64), sigmas, training)

    def start(self, levels: NoiseLevels) -> float:
        """Return the size of the noise that an image begins with."""
        largest = max(levels.sigmas)
        return math.sqrt(largest**2 + 1) if self.timestep_spacing == "leading" else largest

    @property
    def _rounds(self) -> bool:
        return self.rounds_karras and self.use_karras_sigmas

    def _of_timesteps(self, timesteps: Double, training: Double) -> Double:
        return np.interp(timesteps, np.arange(len(training)), training)

    def _levels(self, timesteps: Double, sigmas: Double, training: Double) -> NoiseLevels:
        rounded = np.array([*sigmas, self._final(training)], np.float32)
        return NoiseLevels([float(t) for t in timesteps], [float(sigma) for sigma in rounded])

    def _final(self, training: Double) -> float:
        return 0.0


@dataclass(frozen=True)
class TrainedSigmas(SigmaSettings):
    """Sigmas within those of training, for latents of unit variance; timesteps are whole numbers."""

    def levels(self, steps: int) -> NoiseLevels:
        """Return the levels of `steps` steps; raises BadConfig for an impossible number of them."""
        self.diffusion.require_steps(steps)
        training = self.diffusion.sigmas()
        sigmas = self._respaced(training[-1], training[0], steps)
        if sigmas is None:
            timesteps = self._timesteps(steps, training)
            sigmas = np.interp(timesteps, np.arange(len(training)), training)
        else:
            exact = timesteps_of(sigmas, training)
            timesteps = exact.round() if self._rounds else exact
        rounded = np.array([*sigmas, self._final(sigmas, training)], np.float32)
        return NoiseLevels([float(int(t)) for t in timesteps], [float(sigma) for sigma in rounded])

    @property
    def _rounds(self) -> bool:
        return self.use_karras_sigmas

    def _timesteps(self, steps: int, training: Double) -> Double:
        return visited_before_the_end(self.timestep_spacing, len(training), steps, self.steps_offset)

    def _final(self, sigmas: Double, training: Double) -> float:
        return 0.0


@dataclass(frozen=True)
class Point:
    """A level of noise of latents of unit variance.

    The size of the signal, the size of the noise, and the logarithm of their ratio.
    """

    alpha: float
    sigma: float
    logsnr: float


def point_of(sigma: float) -> Point:
    """Return the point with noise `sigma` relative to a signal of size 1."""
    alpha = 1 / math.sqrt(sigma**2 + 1)
    return Point(alpha, sigma * alpha, -math.log(sigma) if sigma else math.inf)


def timesteps_of(sigmas: Double, training: Double) -> Double:
    """Return the timesteps of `sigmas`, interpolated between the training timesteps.

    The last training sigma may be less than some before it, where zero SNR is replaced by `LEAST_ALPHA`: the
    last one that is no larger counts.
    """
    scale, wanted = np.log(training), np.log(np.maximum(sigmas, LEAST_SIGMA))
    below = (scale[:, None] <= wanted).cumsum(0).argmax(0).clip(max=len(scale) - 2)
    part = (wanted - scale[below]) / (scale[below + 1] - scale[below])
    timesteps: Double = below + part.clip(0, 1)
    return timesteps


def karras_sigmas(noisiest: float, cleanest: float, steps: int) -> Double:
    """Return `steps` sigmas that are evenly spaced in their seventh root."""
    ends = noisiest ** (1 / RHO), cleanest ** (1 / RHO)
    spaced: Double = (ends[0] + np.linspace(0, 1, steps) * (ends[1] - ends[0])) ** RHO
    return spaced


def exponential_sigmas(noisiest: float, cleanest: float, steps: int) -> Double:
    """Return `steps` sigmas that are evenly spaced in their logarithm."""
    spaced: Double = np.exp(np.linspace(math.log(noisiest), math.log(cleanest), steps))
    return spaced


def beta_sigmas(noisiest: float, cleanest: float, steps: int) -> Double:
    """Return `steps` sigmas at the quantiles of a beta distribution between the ends."""
    from scipy.special import betaincinv

    quantiles: Double = betaincinv(BETA, BETA, 1 - np.linspace(0, 1, steps))
    return cleanest + quantiles * (noisiest - cleanest)


SCALES = {
    "use_karras_sigmas": karras_sigmas,
    "use_exponential_sigmas": exponential_sigmas,
    "use_beta_sigmas": beta_sigmas,
}

"""Exponential integrators: the coefficients that DPM-Solver's updates of order one to three share.

Lu et al. (2022, arXiv 2206.00927 and 2211.01095). With the logarithm λ of the signal-to-noise ratio as time,
the integral of what the network predicts, times an exponential, is that of a polynomial through predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from msd.run.runtime.diffusion import Diffusion
from msd.run.runtime.sigmas import Point
from msd.run.runtime.step import Step

Kept = tuple[float, ...]
"""Coefficients of what is kept: the newest, which is this step's own, first."""


@dataclass(frozen=True)
class Integral:
    """The coefficients of a step from the latents at one point to another.

    Of these latents, of noise, and of a constant prediction (`zeroth`) and its derivatives: `first`, as
    `midpoint` approximates it, and `second`.
    """

    latent: float
    zeroth: float
    midpoint: float
    first: float
    second: float
    noise: float = 0.0


def of_clean(here: Point, there: Point) -> Integral:
    """Return the step of dpmsolver++, whose predictions are clean latents."""
    h = there.logsnr - here.logsnr
    zeroth, alpha = -there.alpha * math.expm1(-h), there.alpha
    first, second = (math.expm1(-h) / h + 1, (math.expm1(-h) + h) / h**2 - 0.5) if _ends(h) else NONE
    return Integral(
        latent=there.sigma / here.sigma,
        zeroth=zeroth,
        midpoint=zeroth / 2,
        first=alpha * first,
        second=-alpha * second,
    )


def of_noise(here: Point, there: Point) -> Integral:
    """Return the step of dpmsolver, whose predictions are the noise."""
    h = there.logsnr - here.logsnr
    zeroth, sigma = -there.sigma * math.expm1(h), there.sigma
    first, second = (math.expm1(h) / h - 1, (math.expm1(h) - h) / h**2 - 0.5) if _ends(h) else NONE
    return Integral(
        latent=there.alpha / here.alpha,
        zeroth=zeroth,
        midpoint=zeroth / 2,
        first=-sigma * first,
        second=-sigma * second,
    )


def of_clean_with_noise(here: Point, there: Point) -> Integral:
    """Return the step of sde-dpmsolver++, which adds noise."""
    h = there.logsnr - here.logsnr
    lost, alpha = -math.expm1(-2 * h), there.alpha
    first, second = (1 - lost / (2 * h), (lost - 2 * h) / (2 * h) ** 2 - 0.5) if _ends(h) else NONE
    return Integral(
        latent=there.sigma / here.sigma * math.exp(-h),
        zeroth=alpha * lost,
        midpoint=alpha * lost / 2,
        first=alpha * first,
        second=alpha * second,
        noise=there.sigma * math.sqrt(lost),
    )


def of_noise_with_noise(here: Point, there: Point) -> Integral:
    """Return the step of sde-dpmsolver, which adds noise; diffusers has no third order of it."""
    plain, h = of_noise(here, there), there.logsnr - here.logsnr
    return Integral(
        latent=plain.latent,
        zeroth=2 * plain.zeroth,
        midpoint=plain.zeroth,
        first=2 * plain.first,
        second=math.nan,
        noise=there.sigma * math.sqrt(math.expm1(2 * h)),
    )


NONE = (math.nan, math.nan)


def _ends(h: float) -> bool:
    """Return whether a step has a length, so that derivatives over it exist."""
    return 0 < h < math.inf


INTEGRALS: dict[str, Callable[[Point, Point], Integral]] = {
    "dpmsolver++": of_clean,
    "dpmsolver": of_noise,
    "sde-dpmsolver++": of_clean_with_noise,
    "sde-dpmsolver": of_noise_with_noise,
}
KEEP_NOISE = ("dpmsolver", "sde-dpmsolver")
"""The algorithms whose predictions are the noise."""


def step_at(
    diffusion: Diffusion,
    timestep: float,
    here: Point,
    latent: float,
    kept: Kept,
    *,
    keeps_noise: bool = False,
    from_saved: bool = False,
    save: tuple[float, ...] = (),
    noise: float = 0.0,
) -> Step:
    """Return a step from coefficients of the latents, or of saved ones, and of what is kept, newest first.

    What is kept is the clean latents, or the noise that the output implies.
    """
    clean, implied = diffusion.clean_and_noise(here.alpha**2, timestep)
    own, saved = kept[0] if keeps_noise else 0.0, latent if from_saved else 0.0
    return Step(
        timestep=timestep,
        latent=latent - saved + own * implied[0],
        output=own * implied[1],
        clean=0.0 if keeps_noise else kept[0],
        clean_latent=clean[0],
        clean_output=clean[1],
        saved=saved,
        history=tuple(kept[1:]),
        noise=noise,
        save=save,
        kept_latent=implied[0] if keeps_noise else 0.0,
        kept_output=implied[1] if keeps_noise else 0.0,
        signal=here.alpha,
        sigma=here.sigma,
    )

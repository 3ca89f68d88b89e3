"""A scheduler as a table: for each run of the network a timestep and the coefficients of the next latents.

Nearly all solvers are linear: the next latents are a sum of the latents, of the network's output, of what
earlier steps kept or saved, and of noise, with factors that are known before. A solver of second order that
runs the network twice has a table with two steps for each of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from msd.errors import BadConfig
from msd.run.runtime.arrays import Float


@dataclass(frozen=True, eq=False)
class StepMemory:
    """What a step leaves to the steps that follow.

    `clean`: the clean latents that its output implied. `kept`: what it and the steps before it kept, newest
    first. `saved`: saved latents, None before a step has saved any.
    """

    clean: Float
    kept: tuple[Float, ...] = ()
    saved: Float | None = None


@dataclass(frozen=True)
class Step:
    """The coefficients of one run of the network, for latents x, the network's output o and normal noise n.

    The network's input is `scale`·x. The clean latents are c = `clean_latent`·x + `clean_output`·o, clipped
    to ±`clip` where that is set. A step reads kᵢ, what the step i steps ago kept, and the saved latents s,
    which it first replaces where it has coefficients `save`, of x, o, n, the former s, k₁, k₂ and so on. The
    next latents are `latent`·x + `output`·o + `clean`·c + `saved`·s + `history`ᵢ·kᵢ + `noise`·n.

    A step keeps c, or `kept_latent`·x + `kept_output`·o where these are set; `keeps` says how many of the
    latest the steps that follow read.

    Latents before this step are `signal`·k + `sigma`·n for known clean latents k: an image to begin with.
    """

    timestep: float
    latent: float = 0.0
    output: float = 0.0
    clean: float = 0.0
    clean_latent: float = 0.0
    clean_output: float = 0.0
    clip: float | None = None
    saved: float = 0.0
    history: tuple[float, ...] = ()
    noise: float = 0.0
    save: tuple[float, ...] = ()
    kept_latent: float = 0.0
    kept_output: float = 0.0
    keeps: int = 0
    scale: float = 1.0
    signal: float = 1.0
    sigma: float = 0.0

    def apply(
        self, latent: Float, output: Float, memory: StepMemory | None = None, noise: Float | None = None
    ) -> tuple[Float, StepMemory]:
        """Return the next latents, float32 of the same shape, and what the next step needs of this one.

        `memory` is what the step before returned; None for the first one. `noise` is needed where the step
        `takes_noise`.
        """
        kept, saved = (memory.kept, memory.saved) if memory else ((), None)
        if self.save:
            saved = _sum([*zip(self.save, (latent, output, noise, saved, *kept), strict=False)])
        next_latent: Float = np.float32(self.latent) * latent + np.float32(self.output) * output
        clean = self._clean(latent, output)
        _add(next_latent, [(self.clean, clean), (self.saved, saved)])
        _add(next_latent, [*zip(self.history, kept, strict=False), (self.noise, noise)])
        if self.keeps:
            kept = (self._kept(latent, output, clean), *kept)
        return next_latent, StepMemory(clean, kept[: self.keeps], saved)

    @property
    def takes_noise(self) -> bool:
        """Whether noise is added to the next latents, or to the saved ones."""
        return self.noise != 0 or any(self.save[2:3])

    @property
    def reads(self) -> int:
        """How many of the quantities that the steps before kept this one reads."""
        return max(len(self.history), len(self.save) - 4)

    @property
    def is_finite(self) -> bool:
        """Whether all coefficients are finite numbers."""
        numbers = (self.timestep, self.latent, self.output, self.clean, self.clean_latent, self.clean_output)
        others = (self.saved, self.noise, self.kept_latent, self.kept_output, self.signal, self.sigma)
        return all(map(math.isfinite, (*numbers, *others, *self.history, *self.save)))

    def _clean(self, latent: Float, output: Float) -> Float:
        clean: Float = np.float32(self.clean_latent) * latent + np.float32(self.clean_output) * output
        return clean if self.clip is None else np.clip(clean, -self.clip, self.clip)

    def _kept(self, latent: Float, output: Float, clean: Float) -> Float:
        if self.kept_latent == 0 and self.kept_output == 0:
            return clean
        kept: Float = np.float32(self.kept_latent) * latent + np.float32(self.kept_output) * output
        return kept


Term = tuple[float, Float | None]


def _sum(terms: Sequence[Term]) -> Float:
    """Return the sum of the terms, of which the first always counts."""
    size, first = terms[0]
    assert first is not None
    total: Float = np.float32(size) * first
    _add(total, terms[1:])
    return total


def _add(total: Float, terms: Sequence[Term]) -> None:
    """Add each term to `total`, unless its coefficient is 0."""
    for size, value in terms:
        if size and value is not None:
            total += np.float32(size) * value


@dataclass(frozen=True)
class StepTable:
    """The steps of one image, in order; it begins with normal noise times `start`."""

    steps: Sequence[Step]
    start: float = 1.0

    def noised(self, index: int, clean: Float, noise: Float) -> Float:
        """Return known clean latents as they are before step `index`; after the last one, without noise.

        This is diffusers' `scheduler.add_noise`. Float32 of the shape of `clean`.
        """
        if index == len(self.steps):
            return clean.astype(np.float32)
        step = self.steps[index]
        noised: Float = np.float32(step.signal) * clean + np.float32(step.sigma) * noise
        return noised


def step_table(steps: Sequence[Step], start: float = 1.0) -> StepTable:
    """Return the table of `steps`, each of which keeps what the steps after it read.

    Raises BadConfig for a step whose coefficients are no finite numbers: the solver divides by the distance
    of two steps of equal noise, or by that to no noise at all.
    """
    for i, step in enumerate(steps, 1):
        if not step.is_finite:
            raise BadConfig(
                f"step {i} of {len(steps)}, at timestep {step.timestep:g}, cannot be computed: other steps"
                " are at its level of noise, or the next one is at none; fewer steps, a lower solver_order or"
                " lower_order_final=true help"
            )
    table, keeps = [], 0
    for step in reversed(steps):
        table.append(replace(step, keeps=keeps))
        keeps = max(step.reads, keeps - 1)
    return StepTable(table[::-1], start)


def first_step(steps: int, strength: float | None) -> int:
    """Return the index of the step that an image of this `strength` begins with; None: no image, the first.

    After `get_timesteps` of diffusers' StableDiffusionImg2ImgPipeline. Raises BadConfig for a strength that
    is not above 0 and at most 1, or leaves no step.
    """
    if strength is None:
        return 0
    require_strength(strength)
    if int(steps * strength) < 1:
        least = math.ceil(1000 / steps) / 1000
        raise BadConfig(f"strength {strength:g} leaves no step of {steps}; it should be at least {least:g}")
    return steps - int(steps * strength)


def require_strength(strength: float) -> None:
    """Raise BadConfig for a strength that is not above 0 and at most 1."""
    if not 0 < strength <= 1:
        raise BadConfig(f"strength {strength:g} should be above 0 and at most 1")

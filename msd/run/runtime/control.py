"""Pictures that steer an image by ControlNets, and how much each counts in a step.

As diffusers' StableDiffusionControlNetPipeline takes them: scales, the part of the steps, and guess mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msd.bounds import MOST_SCALE
from msd.errors import BadValue
from msd.run.runtime.arrays import Float

LEAST_GUESS = 0.1
"""The factor of a ControlNet's first output in guess mode; that of its last is 1."""


@dataclass(frozen=True, eq=False)
class Control:
    """A picture by which the ControlNet `name` steers: `hint`, float32 (1, height, width, 3) in [-1, 1].

    The ControlNet's outputs count `scale` times, in the steps from `begin` to `until`, as parts of all.
    Raises BadValue for numbers out of bounds.
    """

    name: str
    hint: Float
    scale: float = 1.0
    begin: float = 0.0
    until: float = 1.0
    description: str = ""

    def __post_init__(self) -> None:
        if not abs(self.scale) <= MOST_SCALE:
            raise BadValue(
                f"the scale {self.scale:g} of the control {self.name} should be a number up to {MOST_SCALE:g}"
            )
        if not 0 <= self.begin < self.until <= 1:
            raise BadValue(
                f"the control {self.name} counts from {self.begin:g} until {self.until:g}; both are parts of"
                " all steps, from 0 to 1, and the first should be smaller"
            )

    @property
    def facts(self) -> tuple[Any, ...]:
        """Everything but the picture."""
        return self.name, self.scale, self.begin, self.until

    @property
    def words(self) -> str:
        """The control in words, for an image's metadata."""
        part = "" if (self.begin, self.until) == (0, 1) else f", from {self.begin:g} until {self.until:g}"
        return f"{self.name} at {self.scale:g}{part} by {self.description or 'a picture'}"

    def scale_at(self, index: int, total: int) -> float:
        """Return the scale in run `index`, from 0, of `total` runs of the denoiser."""
        counts = index / total >= self.begin and (index + 1) / total <= self.until
        return self.scale if counts else 0.0


@dataclass(frozen=True, eq=False)
class Controls:
    """The pictures that steer the images which are denoised together, each image's in a row, by their names.

    `settings` has a control for each name, whose picture is not used. With `guess`, outputs of lower
    resolution count more, and where guidance has two rows, the first is not steered.
    """

    hints: Mapping[str, Float]
    settings: Mapping[str, Control]
    guess: bool = False

    def at(self, index: int, total: int) -> StepControls:
        """Return what counts in run `index`, from 0, of `total` runs of the denoiser."""
        sizes = {name: control.scale_at(index, total) for name, control in self.settings.items()}
        return StepControls(self.hints, sizes, self.guess)


@dataclass(frozen=True, eq=False)
class StepControls:
    """The pictures of one step, and the `sizes` by which their ControlNets' outputs are multiplied."""

    hints: Mapping[str, Float]
    sizes: Mapping[str, float]
    guess: bool = False

    def scales(self, name: str, images: int, rows: int, count: int) -> Float:
        """Return the scales of `count` outputs for each row of each image, float32 (images · rows, count)."""
        size = np.float32(self.sizes.get(name, 0.0))
        factors = np.logspace(np.log10(LEAST_GUESS), 0, count) if self.guess else np.ones(count)
        scales = np.tile(size * factors.astype(np.float32), (images, rows, 1))
        if self.guess and rows > 1:
            scales[:, 0] = 0
        flat: Float = scales.reshape(images * rows, count)
        return flat


def idle_controls(controls: Sequence[Control], total: int) -> Iterator[str]:
    """Yield a sentence for each control that steers none of `total` runs of the denoiser."""
    nowhere = "does not steer the one step" if total == 1 else f"steers none of the {total} steps"
    for control in controls:
        if not any(control.scale_at(i, total) for i in range(total)):
            yield f"the control {control.name} {nowhere}"


NO_CONTROLS = Controls({}, {})


def controls_of(requests: Sequence[tuple[Control, ...]], guess: bool) -> Controls:
    """Return the controls of images that are denoised together, which differ only in their pictures."""
    first = requests[0]
    hints = {
        each.name: np.concatenate([controls[i].hint for controls in requests]) for i, each in enumerate(first)
    }
    return Controls(hints, {each.name: each for each in first}, guess)

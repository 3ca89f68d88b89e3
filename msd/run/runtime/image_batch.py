"""Images that are denoised together: each run of the denoiser serves all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from msd.run.runtime.arrays import Float
from msd.run.runtime.control import Controls, controls_of
from msd.run.runtime.denoiser import Values
from msd.run.runtime.noise import noise
from msd.run.runtime.request import Request
from msd.run.runtime.start import Start, pixels_of, together
from msd.run.runtime.step import StepTable


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """Requests of equal steps, guidance, strength and controls.

    Rows of `values` and `start` are in their order.
    """

    requests: Sequence[Request]
    table: StepTable
    values: Values
    start: Start

    @property
    def pixels(self) -> Values:
        """The pixels that networks take in every step, those of each image in a row."""
        return _joined([pixels_of(request.image) for request in self.requests])

    @property
    def controls(self) -> Controls:
        """The pictures that steer, those of each image in a row."""
        return controls_of([request.controls for request in self.requests], self.requests[0].guess)

    @property
    def strength(self) -> float | None:
        """The strength of each image; None without images to begin with."""
        return self.requests[0].effective_strength

    def noise(self, step: int) -> Float:
        """Return the noise that a scheduler adds after a step, each image's from its own seed."""
        shape = (1, *self.start.noise.shape[1:])
        return np.concatenate([noise(request.seed, shape, step) for request in self.requests])


def image_batches(
    requests: Sequence[Request],
    tables: Sequence[StepTable],
    values: Sequence[Values],
    starts: Sequence[Start],
    most: int,
) -> Iterator[ImageBatch]:
    """Yield the images in order, up to `most` neighbours that can be denoised together in one batch."""
    for _, group in groupby(range(len(requests)), lambda i: _key(requests[i])):
        indices = list(group)
        for first in range(0, len(indices), most):
            chosen = indices[first : first + most]
            yield ImageBatch(
                requests=[requests[i] for i in chosen],
                table=tables[chosen[0]],
                values=_joined([values[i] for i in chosen]),
                start=together([starts[i] for i in chosen]),
            )


def _key(request: Request) -> tuple[object, ...]:
    image = request.image
    kind = None if image is None else image.mask is not None
    controls = [control.facts for control in request.controls]
    guidance = request.guidance, request.image_guidance, request.guess
    return request.steps, guidance, request.effective_strength, kind, controls


def _joined(parts: Sequence[Values]) -> dict[str, Float]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

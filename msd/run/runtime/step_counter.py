"""Counts the steps of images, and has the decoder loaded in time for the first image that it decodes."""

from __future__ import annotations

import math
from collections.abc import Callable

from msd.run.runtime.execution import NetworksInMemory

OnStep = Callable[[int, int, float], None]
"""Called after each step of each image with the number of steps done, the number of all, and the seconds of
this one; images that are denoised together share them equally. A step is a run of the denoiser here, of which
some schedulers make more than the steps asked for."""


class StepCounter:
    """Counts and reports the steps of all images, and has the decoder loaded when it is needed first.

    That is after `before` steps of the `total`.
    """

    def __init__(
        self, total: int, on_step: OnStep | None, networks: NetworksInMemory, decoder: str, before: int
    ) -> None:
        self._done, self._total, self._on_step = 0, total, on_step
        self._networks, self._decoder, self._before = networks, decoder, before
        networks.prefetch_in_time(decoder, before, math.inf)

    def add(self, seconds: float) -> None:
        """Count one step that took `seconds`."""
        self._done += 1
        if self._done <= self._before:
            self._networks.prefetch_in_time(self._decoder, self._before - self._done, seconds)
        if self._on_step:
            self._on_step(self._done, self._total, seconds)

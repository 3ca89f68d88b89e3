"""The covariance of a layer's inputs, summed up run by run, in parts of a bounded size."""

from __future__ import annotations

import math

import numpy as np

from msd.ir import Op
from msd.ir.weights import Array
from msd.pruning.layer import some_rows
from msd.rounding.compensate import InputPart

LARGEST = 4096
"""The most inputs whose products are kept: 134 MB in float64. Layers with more are rounded in parts."""

SAMPLES = 8192
"""About the most samples of a layer: an equal number from each run, at fixed random positions."""

AT_ONCE = 1024
"""The samples that are multiplied at once."""


class Moments:
    """Sums of the inputs of the convolution `op` over `runs`, and of their products within each part."""

    def __init__(self, op: Op, runs: int) -> None:
        self.op, self.each = op, math.ceil(SAMPLES / runs)
        self.runs, self.run, self.count = runs, 0, 0
        self.waiting: list[Array] = []
        _, height, width, channels = op.operands[1].shape
        self.parts = _parts(height * width, channels)
        self.sums = np.zeros(height * width * channels)
        self.products = [np.zeros((len(part), len(part))) for part in self.parts]

    def add(self, value: Array) -> None:
        """Add the layer's input in one run."""
        self.waiting.append(some_rows(self.op, value, self.each, self.run))
        self.run += 1
        if self.run == self.runs or sum(map(len, self.waiting)) >= AT_ONCE:
            self._sum(np.concatenate(self.waiting))
            self.waiting = []

    def _sum(self, samples: Array) -> None:
        self.count += len(samples)
        self.sums += samples.sum(axis=0, dtype=np.float64)
        for part, total in zip(self.parts, self.products, strict=True):
            some = samples if len(self.parts) == 1 else samples[:, part]
            total += some.T @ some

    @property
    def mean(self) -> Array:
        """The inputs' means, float64."""
        return self.sums / self.count

    def parts_of(self, centred: bool) -> list[InputPart]:
        """Return the parts with their covariances, about zero unless `centred`; the products are used up."""
        parts = []
        for part, total in zip(self.parts, self.products, strict=True):
            total /= self.count
            square = float(np.mean(np.diag(total)))
            if centred:
                total -= np.outer(self.mean[part], self.mean[part])
            parts.append(InputPart(part, total, square))
        self.products = []
        return parts


def has_bias(op: Op) -> bool:
    """Whether a convolution has a constant bias, which can take its mean error."""
    return len(op.operands) > 2 and op.operands[2].data is not None


def moment_bytes(op: Op) -> int:
    """Return the bytes of the products of a convolution's inputs."""
    _, height, width, channels = op.operands[1].shape
    return sum(8 * len(part) ** 2 for part in _parts(height * width, channels))


def _parts(window: int, channels: int) -> list[Array]:
    """Return indices of the inputs, position by channel, in parts of whole channels of about equal size."""
    count = math.ceil(window * channels / LARGEST)
    every = np.arange(window * channels).reshape(window, channels)
    return [part.reshape(-1) for part in np.array_split(every, count, axis=1)]

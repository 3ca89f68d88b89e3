"""The covariance of a layer's inputs, summed up run by run, in parts of a bounded size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np

from msd.compress.encoding.recipe import Line
from msd.compress.rounding.compensate import InputPart, Rounded, compensated
from msd.graph.ir import Op
from msd.graph.ir.weights import Array

K = TypeVar("K")

LARGEST = 4096
"""The most inputs whose products are kept: 134 MB in float64. Layers with more are rounded in parts."""

SAMPLES = 8192
"""About the most samples of a layer: as many from each run, at fixed random positions."""

PRODUCTS = 1 << 30
"""The bytes of products of inputs in memory at once; one layer may have more: then it is alone."""

AT_ONCE = 1024
"""The samples that are multiplied at once."""


class Moments:
    """Sums of a layer's inputs, `window` positions of `channels`, and of their products within each part."""

    def __init__(self, window: int, channels: int) -> None:
        self.count = 0
        self.waiting: list[Array] = []
        self.parts = _parts(window, channels)
        self.sums = np.zeros(window * channels)
        self.products = [np.zeros((len(part), len(part))) for part in self.parts]

    def add(self, samples: Array) -> None:
        """Add samples (n, window × channels)."""
        self.waiting.append(samples)
        if sum(map(len, self.waiting)) >= AT_ONCE:
            self._sum()

    def _sum(self) -> None:
        samples, self.waiting = np.concatenate(self.waiting), []
        self.count += len(samples)
        self.sums += samples.sum(axis=0, dtype=np.float64)
        for part, total in zip(self.parts, self.products, strict=True):
            some = samples if len(self.parts) == 1 else samples[:, part]
            total += some.T @ some

    @property
    def mean(self) -> Array:
        """The inputs' means, float64."""
        if self.waiting:
            self._sum()
        return self.sums / self.count

    def parts_of(self, centred: bool) -> list[InputPart]:
        """Return the parts with their covariances, about zero unless `centred`; the products are used up."""
        parts, mean = [], self.mean
        for part, total in zip(self.parts, self.products, strict=True):
            total /= self.count
            square = float(np.mean(np.diag(total)))
            if centred:
                total -= np.outer(mean[part], mean[part])
            parts.append(InputPart(part, total, square))
        self.products = []
        return parts

    def rounded(self, weights: Array, line: Line, takes_mean: bool) -> Rounded:
        """Return a layer's weights (outputs, …) rounded as `line` stores them; the products are used up.

        `takes_mean` says whether a bias takes the mean error.
        """
        parts = self.parts_of(centred=takes_mean)
        mean = self.mean if takes_mean else np.zeros_like(self.mean)
        rows = weights.reshape(len(weights), -1)
        return compensated(rows, parts, mean, line.store, line.granularity == "channel")


def has_bias(op: Op) -> bool:
    """Whether a convolution has a constant bias, which can take its mean error."""
    return len(op.operands) > 2 and op.operands[2].data is not None


def moment_bytes(window: int, channels: int) -> int:
    """Return the bytes of the products of a layer's inputs, `window` positions of `channels`."""
    return sum(8 * len(part) ** 2 for part in _parts(window, channels))


def batches(bytes_of: Mapping[K, int]) -> Iterator[list[K]]:
    """Yield layers in batches, in their order, whose products of inputs have `PRODUCTS` bytes at most."""
    batch: list[K] = []
    used = 0
    for layer, size in bytes_of.items():
        if batch and used + size > PRODUCTS:
            yield batch
            batch, used = [], 0
        batch.append(layer)
        used += size
    if batch:
        yield batch


def _parts(window: int, channels: int) -> list[Array]:
    """Return indices of the inputs, position by channel, in parts of whole channels of about equal size."""
    count = math.ceil(window * channels / LARGEST)
    every = np.arange(window * channels).reshape(window, channels)
    return [part.reshape(-1) for part in np.array_split(every, count, axis=1)]

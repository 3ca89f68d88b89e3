"""Least squares: the weights of a layer, refitted so that with fewer inputs it makes what it made with all.

With inputs z' that remain and outputs y that there were, the new weights are those of

    min |y - W z' - b|² + λ |W - W₀|²,   W = (Σ y z'ᵀ + λ W₀) (Σ z' z'ᵀ + λ)⁻¹,

W₀ the weights that remain: channel pruning's reconstruction (He et al., arXiv:1707.06168; ThiNet,
arXiv:1707.06342), with a ridge towards W₀ where the calibration says little. λ is the one of `RIDGES` that
does best on runs that were held out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msd.weights import Array

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""λ, relative to the mean square of the inputs."""

HELD_OUT = 4
"""Of all runs, the last 1/4 are held out: other pictures than the rest, not other steps of the same."""

EXACT = 4000
"""Up to so many inputs sums are float64; beyond, float32: 11520 inputs take 0.5 GB then."""


@dataclass
class Moments:
    """Sums over samples: of products of inputs (inputs, inputs), outputs by inputs, and squared outputs.

    The last input is 1 throughout, for the bias.
    """

    inputs: Array
    cross: Array
    energy: float = 0.0

    @staticmethod
    def zero(inputs: int, outputs: int) -> Moments:
        """Return the sums of no sample."""
        dtype = np.float64 if inputs <= EXACT else np.float32
        return Moments(np.zeros((inputs + 1, inputs + 1), dtype), np.zeros((outputs, inputs + 1), dtype))

    def add(self, rows: Array, outputs: Array) -> None:
        """Add samples: inputs (n, inputs) and outputs (n, outputs)."""
        dtype = self.inputs.dtype
        z = np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], axis=1, dtype=dtype)
        y = outputs.astype(dtype, copy=False)
        self.inputs += z.T @ z
        self.cross += y.T @ z
        self.energy += float(np.square(y, dtype=np.float64).sum())

    def error(self, weights: Array) -> float:
        """Return the squared error of `weights`, (outputs, inputs) or with a bias, of the outputs' energy."""
        w = np.zeros_like(self.cross)
        w[:, : weights.shape[1]] = weights
        off = self.energy - 2 * float(np.sum(w * self.cross)) + float(np.sum((w @ self.inputs) * w))
        return max(0.0, off) / self.energy if self.energy else 0.0

    def solve(self, weights: Array, bias: bool, ridge: float) -> Array:
        """Return the refitted weights (outputs, inputs), float32, and if `bias` a column to add to the bias.

        `weights` (outputs, inputs) are those that it starts from.
        """
        size = len(self.inputs) if bias else len(self.inputs) - 1
        left, right = self.inputs[:size, :size].copy(), self.cross[:, :size].copy()
        amount = ridge * float(np.trace(self.inputs[:-1, :-1])) / max(1, len(self.inputs) - 1)
        right[:, : weights.shape[1]] += amount * weights
        left[np.diag_indices_from(left)] += max(amount, float(np.finfo(np.float32).tiny))
        return np.asarray(np.linalg.solve(left, right.T).T, np.float32)

    def __iadd__(self, other: Moments) -> Moments:
        self.inputs += other.inputs
        self.cross += other.cross
        self.energy += other.energy
        return self


@dataclass
class Samples:
    """Sums over the runs to fit to, and over those held out."""

    fitted: Moments
    held: Moments
    first_held: int
    """How many runs are fitted to."""
    runs: int = 0

    @staticmethod
    def none(inputs: int, outputs: int, runs: int) -> Samples:
        """Return the sums of none of `runs` runs that will be added."""
        return Samples(Moments.zero(inputs, outputs), Moments.zero(inputs, outputs), runs - runs // HELD_OUT)

    def add(self, rows: Array, outputs: Array) -> None:
        """Add a run: inputs (n, inputs) and outputs (n, outputs)."""
        (self.fitted if self.runs < self.first_held else self.held).add(rows, outputs)
        self.runs += 1

    @property
    def judge(self) -> Moments:
        """What errors are told on: the runs held out, or all where there are too few."""
        return self.held if self.held.energy else self.fitted

    def refit(self, weights: Array, bias: bool) -> tuple[Array, float]:
        """Return the refitted weights as `Moments.solve` does, and their error where it is judged.

        The ridge is chosen on the runs held out, then all are fitted to. Where no ridge does better than
        `weights` as they are, these are returned. The sums are spent.
        """
        errors = {ridge: self.judge.error(self.fitted.solve(weights, bias, ridge)) for ridge in RIDGES}
        best = min(errors, key=lambda ridge: errors[ridge])
        before = self.judge.error(weights)
        if errors[best] >= before:
            return np.pad(weights, ((0, 0), (0, int(bias)))), before
        self.fitted += self.held
        return self.fitted.solve(weights, bias, best), errors[best]

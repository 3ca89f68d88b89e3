"""Least squares: refit the weights of a layer so that fewer inputs reproduce its outputs.

With the remaining inputs z, the remaining weights W₀, the original outputs y and the residuals r = y - W₀ z,
the new weights are W₀ + D with the D of

    min |r - D z|² + λ |D|²,    D = Rᵀ Z (Zᵀ Z + λ)⁻¹ = Rᵀ (Z Zᵀ + λ)⁻¹ Z,

where Z and R have a row for each sample: channel pruning's reconstruction (He et al., arXiv:1707.06168;
ThiNet, arXiv:1707.06342), with a ridge towards W₀ where the calibration says little. Both forms give the same
numbers; the second is for fewer samples than inputs (Saunders et al. 1998, ridge regression in dual
variables). λ is the one of `RIDGES` that does best on held-out runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from msd.compress.pruning.layer import some_positions
from msd.graph.ir.weights import Array

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""λ, relative to the mean square of the inputs."""

HELD_OUT = 4
"""The last 1/4 of all runs are held out: other images than the rest, not other steps of the same."""

SAMPLES = 8192
"""About the most samples of a layer: an equal number from each run, at fixed random positions."""

EXACT = 4000
"""Products of samples are float64 up to this many rows; beyond, float32, which takes half the memory."""


@dataclass
class Ridge:
    """Ridge regression of `residuals` (n, outputs) on `inputs` (n, k), for any λ.

    `dual`: with products of samples (n, n) in place of products of inputs (k, k).
    """

    inputs: Array
    residuals: Array
    dual: bool

    @staticmethod
    def of(inputs: Array, residuals: Array) -> Ridge:
        """Return the form with the smaller matrix, its products in float64 up to `EXACT` rows."""
        dtype = np.float64 if min(inputs.shape) <= EXACT else np.float32
        z, r = inputs.astype(dtype, copy=False), residuals.astype(dtype, copy=False)
        return Ridge(z, r, len(inputs) < inputs.shape[1])

    @cached_property
    def _products(self) -> tuple[Array, Array]:
        z = self.inputs
        return (z @ z.T, self.residuals) if self.dual else (z.T @ z, z.T @ self.residuals)

    def solve(self, amount: float) -> Array:
        """Return the coefficients for λ = `amount`: of samples if dual, (n, outputs), else of inputs."""
        left, right = self._products
        left = left.copy()
        left[np.diag_indices_from(left)] += max(amount, float(np.finfo(np.float32).tiny))
        return np.asarray(np.linalg.solve(left, right))

    def change(self, coefficients: Array) -> Array:
        """Return D for coefficients, float32 (outputs, k)."""
        change = self.inputs.T @ coefficients if self.dual else coefficients
        return np.asarray(change.T, np.float32)

    def seen(self, inputs: Array) -> Array:
        """Return the matrix whose product with the coefficients is D z for each of `inputs` (m, k)."""
        return np.asarray(inputs @ self.inputs.T if self.dual else inputs)


@dataclass(frozen=True)
class Samples:
    """Inputs, float32 (n, inputs + 1), and outputs (n, outputs) of a layer; the fit uses the first `fitted`.

    The last input is always 1, for the bias. Errors are measured on the held-out samples, or on all where
    there are none.
    """

    inputs: Array
    outputs: Array
    fitted: int

    def residuals(self, weights: Array) -> Array:
        """Return the outputs minus the result of `weights` (outputs, inputs + 1), the bias last."""
        lacking: Array = self.outputs - self.inputs @ weights.T
        return lacking

    @property
    def judged(self) -> slice:
        """The samples that errors are measured on."""
        return slice(self.fitted if self.fitted < len(self.outputs) else 0, None)

    def error(self, residuals: Array) -> float:
        """Return the squares of the `judged` residuals, over those of the outputs."""
        energy = _squares(self.outputs[self.judged])
        return _squares(residuals) / energy if energy else 0.0

    def error_of(self, weights: Array) -> float:
        """Return the error of `weights` (outputs, inputs + 1), the bias last."""
        return self.error(self.residuals(weights)[self.judged])

    def refit(self, weights: Array, bias: bool) -> tuple[Array, float]:
        """Return the change of `weights` (outputs, inputs + 1), the bias last, and the remaining error.

        The bias changes only if `bias`. The ridge is chosen on the held-out runs; then the fit uses all runs.
        The change is zero where no ridge does better than `weights` as they are.
        """
        lacking, change = self.residuals(weights), np.zeros_like(weights)
        inputs = self.inputs if bias else self.inputs[:, :-1]
        errors = self._errors(inputs, lacking)
        best, before = min(errors, key=lambda ridge: errors[ridge]), self.error(lacking[self.judged])
        if errors[best] >= before:
            return change, before
        known = Ridge.of(inputs, lacking)
        change[:, : inputs.shape[1]] = known.change(known.solve(self._amount(best, len(inputs))))
        return change, errors[best]

    def _errors(self, inputs: Array, lacking: Array) -> dict[float, float]:
        """Return the error of each ridge, fitted without the held-out runs."""
        known = Ridge.of(inputs[: self.fitted], lacking[: self.fitted])
        seen, left = known.seen(inputs[self.judged]), lacking[self.judged]
        amounts = {ridge: self._amount(ridge, self.fitted) for ridge in RIDGES}
        return {ridge: self.error(left - seen @ known.solve(amount)) for ridge, amount in amounts.items()}

    def _amount(self, ridge: float, count: int) -> float:
        """Return λ for the first `count` samples."""
        inputs = self.inputs[:count, :-1]
        return ridge * _squares(inputs) / max(1, inputs.shape[1])


def _squares(values: Array) -> float:
    return float(np.square(values, dtype=np.float64).sum())


@dataclass
class Spool:
    """Samples of a layer, run by run, in the file `path`: about `SAMPLES` at most over all `runs`."""

    path: Path
    runs: int
    counts: list[int] = field(default_factory=list)
    widths: tuple[int, int] = (0, 0)

    def positions(self, count: int) -> Array:
        """Return which of the `count` samples of the next run are kept: as many as a run may have."""
        return some_positions(count, math.ceil(SAMPLES / self.runs), len(self.counts))

    def add(self, inputs: Array, outputs: Array) -> None:
        """Add a run: inputs (n, inputs) and outputs (n, outputs), or as many of them as a run may have."""
        chosen = self.positions(len(inputs))
        parts = inputs[chosen], np.ones((len(chosen), 1)), outputs[chosen]
        with self.path.open("ab") as file:
            file.write(np.concatenate(parts, axis=1, dtype=np.float32).data)
        self.counts.append(len(chosen))
        self.widths = inputs.shape[1] + 1, outputs.shape[1]

    def samples(self) -> Samples:
        """Return all samples, read from the file."""
        both = np.fromfile(self.path, np.float32).reshape(-1, sum(self.widths))
        fitted = sum(self.counts[: self.runs - self.runs // HELD_OUT])
        return Samples(both[:, : self.widths[0]], both[:, self.widths[0] :], fitted)

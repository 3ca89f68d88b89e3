"""What the real delegate makes of one file, as one object."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from msd.ir.weights import Array
from msd.judging.rejection import Rejection
from msd.parity import psnr
from msd.runners.runner import Precision

THRESHOLD_DB = {"fp32": 60.0, "fp16": 35.0}
"""The least PSNR between GPU and CPU that counts as the same numbers, by the precision computed in."""


@dataclass(frozen=True)
class Distance:
    """How far an output of the GPU is from the CPU's.

    `psnr` is 20·log10(max|reference| / rmse) in dB: infinite for equal outputs, NaN where either is not
    finite.
    """

    output: str
    psnr: float
    max_difference: float
    max_reference: float
    finite: bool
    reference_finite: bool
    identical: bool


def distance(output: str, value: Array, reference: Array) -> Distance:
    """Return how far `value` is from `reference`, two arrays of one shape and any real dtype."""
    got, wanted = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite, reference_finite = bool(np.isfinite(got).all()), bool(np.isfinite(wanted).all())
    identical = value.dtype == reference.dtype and np.array_equal(value, reference)
    known = finite and reference_finite
    return Distance(
        output=output,
        psnr=psnr(wanted, got) if known else math.nan,
        max_difference=_greatest(got - wanted) if known else math.nan,
        max_reference=_greatest(wanted) if known else math.nan,
        finite=finite,
        reference_finite=reference_finite,
        identical=identical,
    )


def _greatest(values: npt.NDArray[np.float64]) -> float:
    return float(np.max(np.abs(values), initial=0))


@dataclass(frozen=True)
class Verdict:
    """The delegate's verdict on one file.

    `operations` counts the file's, `delegated` those the GPU got, `partitions` the pieces the graph was cut
    into (those on the CPU included; 0 where the GPU got nothing), `subgraphs` the graphs in the file: a file
    that runs whole on the GPU has one piece each. `confirmed` says that the runtime itself stated the
    replacement. `precision` is the one computed in, `asked` the one asked for. `failure` is why it did not
    compile or run, `crashed` whether that was a crash, a time-out or a lack of memory. `problems` are the
    native errors logged. `reference_failure` is why the CPU gave no numbers. Seconds are wall time.
    """

    file: Path
    adapter: str
    adapter_type: str
    asked: Precision
    precision: Precision
    operations: int
    subgraphs: int
    delegated: int
    partitions: int
    confirmed: bool
    rejected: tuple[Rejection, ...]
    distances: tuple[Distance, ...]
    failure: str | None
    crashed: bool
    problems: tuple[str, ...]
    reference_failure: str | None
    compile_seconds: float | None
    run_seconds: float | None
    seconds: float
    log: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether every operation went to the GPU, in one piece."""
        return (
            self.failure is None
            and self.delegated == self.operations > 0
            and self.partitions == self.subgraphs
        )

    @property
    def psnr(self) -> float:
        """The lowest of the outputs' PSNR in dB; NaN where one is undefined or there are none."""
        values = [d.psnr for d in self.distances]
        return math.nan if not values or any(map(math.isnan, values)) else min(values)

    @property
    def max_difference(self) -> float:
        """The largest difference of any output; NaN where one is undefined or there are none."""
        values = [d.max_difference for d in self.distances]
        return math.nan if not values or any(map(math.isnan, values)) else max(values)

    @property
    def threshold(self) -> float:
        """The PSNR in dB that every output must reach."""
        return THRESHOLD_DB[self.precision]

    @property
    def ok(self) -> bool:
        """Whether the file runs whole on the GPU with the CPU's numbers."""
        return not self.objections

    @property
    def objections(self) -> tuple[str, ...]:
        """Why the verdict is not ok, a clause each."""
        return tuple(self._objections())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know even of a good verdict, a clause each."""
        return tuple(self._notes())

    @property
    def precision_note(self) -> str | None:
        """That the adapter does not compute in the precision asked for, or None."""
        if self.asked == self.precision:
            return None
        return f"{self.asked} was asked for, but {self.adapter} computes in {self.precision}"

    def _objections(self) -> Iterator[str]:
        if self.rejected or (self.failure is None and self.delegated != self.operations):
            yield f"{self.operations - self.delegated} of {self.operations} operations stay on the CPU"
        elif self.failure is None and self.partitions != self.subgraphs:
            yield f"the graph is cut into {self.partitions} partitions"
        if self.failure:
            yield self.failure
        else:
            yield from (f"the native log has the error “{problem}”" for problem in self.problems)
        if self.reference_failure:
            yield f"the CPU gave no numbers to compare with: {self.reference_failure}"
        for found in self.distances:
            yield from self._wrong(found)

    def _wrong(self, found: Distance) -> Iterator[str]:
        if not found.finite:
            both = "" if found.reference_finite else ", and on the CPU too"
            yield f"{found.output} has NaN or infinite values{both}"
        elif not found.reference_finite:
            yield f"{found.output} has NaN or infinite values on the CPU"
        elif found.psnr < self.threshold and self.whole:
            yield f"{found.output} is only {found.psnr:.1f} dB from the CPU's (wanted: {self.threshold:g} dB)"
        elif found.identical and not self.confirmed:
            yield f"{found.output} is the CPU's to the last bit, and no log line says that the GPU made it"

    def _notes(self) -> Iterator[str]:
        if self.distances and not self.whole:
            yield "the numbers are those of GPU and CPU together"
            yield "operations with int8 weights round their inputs on the CPU: expect about 50 dB of these"
        for found in self.distances:
            if found.identical and self.confirmed:
                yield f"{found.output} is the CPU's to the last bit"

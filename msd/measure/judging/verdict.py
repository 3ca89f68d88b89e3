"""The real delegate's verdict on one file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.judging.rejection import Rejection
from msd.run.runners.runner import Precision

THRESHOLD_DB = {"fp32": 60.0, "fp16": 35.0}
"""The least PSNR between GPU and CPU of an acceptable result, by the precision of the arithmetic."""


@dataclass(frozen=True)
class Distance:
    """The error of one output of the GPU, relative to the CPU's.

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
    """Return the distance of `value` from `reference`, two arrays of one shape and any real dtype."""
    actual, expected = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite, reference_finite = bool(np.isfinite(actual).all()), bool(np.isfinite(expected).all())
    identical = value.dtype == reference.dtype and np.array_equal(value, reference)
    known = finite and reference_finite
    return Distance(
        output=output,
        psnr=psnr(expected, actual) if known else math.nan,
        max_difference=_greatest(actual - expected) if known else math.nan,
        max_reference=_greatest(expected) if known else math.nan,
        finite=finite,
        reference_finite=reference_finite,
        identical=identical,
    )


def _greatest(values: npt.NDArray[np.float64]) -> float:
    return float(np.max(np.abs(values), initial=0))


@dataclass(frozen=True)
class Verdict:
    """The delegate's verdict on one file.

    `operations` counts the file's operations, `delegated` those on the GPU, `partitions` the pieces that the
    graphs are cut into (including those on the CPU; 0 where nothing is on the GPU), `subgraphs` the graphs in
    the file: each graph of a fully delegated file is one piece. `confirmed` says that the runtime logged the
    replacement. `requested` is the requested precision, `precision` that of the arithmetic. `failure` is the
    reason why the file did not compile or run, and `crashed` says whether that was a crash, a time-out or a
    lack of memory. `problems` are the errors in the native log. `reference_failure` is the reason why there
    are no results of the CPU. `integer_weights` says that operations with float results read integer weights.
    Seconds are wall time. `litert` is the version asked, None for the installed one.
    """

    file: Path
    adapter: str
    adapter_type: str
    requested: Precision
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
    integer_weights: bool = False
    litert: str | None = None

    @property
    def fully_delegated(self) -> bool:
        """Whether every operation runs on the GPU, in one piece for each graph."""
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
        """Whether the file is fully delegated and its results match the CPU's."""
        return not self.objections

    @property
    def objections(self) -> tuple[str, ...]:
        """The reasons why the verdict is not ok, a clause each."""
        return tuple(self._objections())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for readers, even on a good verdict, a clause each."""
        return tuple(self._notes())

    @property
    def precision_note(self) -> str | None:
        """A clause where the adapter does not compute in the requested precision, or None."""
        if self.requested == self.precision:
            return None
        return f"{self.requested} was requested, but {self.adapter} computes in {self.precision}"

    def _objections(self) -> Iterator[str]:
        if self.rejected or (self.failure is None and self.delegated != self.operations):
            yield f"{self.operations - self.delegated} of {self.operations} operations stay on the CPU"
        elif self.failure is None and self.partitions != self.subgraphs:
            yield f"the graph is cut into {self.partitions} partitions"
        if self.failure:
            yield self.failure
        else:
            yield from (f"the native log has the error “{problem}”" for problem in self.problems)
        if self.delegated and not (self.distances or self.failure or self.reference_failure):
            yield "it has no results that could be compared with the CPU's"
        if self.reference_failure:
            yield f"there are no results of the CPU to compare with: {self.reference_failure}"
        for output in self.distances:
            yield from self._output_objections(output)

    def _output_objections(self, output: Distance) -> Iterator[str]:
        name, least = output.output, f"{self.threshold:g} dB"
        if not output.finite:
            both = "" if output.reference_finite else ", and on the CPU too"
            yield f"{name} has NaN or infinite values{both}"
        elif not output.reference_finite:
            yield f"{name} has NaN or infinite values on the CPU"
        elif output.psnr < self.threshold and self.fully_delegated:
            yield f"{name} has a PSNR of only {output.psnr:.1f} dB against the CPU's (required: {least})"
        elif output.identical and not self.confirmed:
            yield f"{name} equals the CPU's to the last bit, and no log line says that the GPU computed it"

    def _notes(self) -> Iterator[str]:
        if self.distances and not self.fully_delegated:
            yield "the results are computed by GPU and CPU together"
        if self.distances and not self.fully_delegated and self.integer_weights:
            yield "operations with int8 weights round their inputs on the CPU: expect about 50 dB from these"
        for output in self.distances:
            if output.identical and self.confirmed:
                yield f"{output.output} equals the CPU's to the last bit"

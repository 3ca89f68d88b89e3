"""The real delegate's verdict on one file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from msd.files.schema import UNLESS_EMPTY
from msd.files.wording import counted, plural
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.judging.rejection import Rejection
from msd.run.runners.runner import Precision, other_precision

THRESHOLD_DB = {"fp32": 60.0, "fp16": 35.0}
"""The least PSNR between GPU and CPU of an acceptable result, by the precision of the arithmetic."""

IM2COL = "Conv im2col elements"
"""How LiteRT from 2.1.4 on refuses a CONV_2D of too many elements, whatever its weights are stored as."""


@dataclass(frozen=True)
class Distance:
    """The error of one output of the GPU, relative to the CPU's.

    `psnr_db` is 20·log10(max|reference| / rmse); it and the others are None where infinite or undefined.
    """

    output: str
    psnr_db: float | None
    max_difference: float | None
    max_reference: float | None
    finite: bool
    identical: bool
    reference_finite: bool = True

    @property
    def psnr(self) -> float:
        """The PSNR in dB: infinite for equal values, -inf beside silence, NaN where one is not finite."""
        if self.psnr_db is not None:
            return self.psnr_db
        if self.max_difference is None:
            return math.nan
        return -math.inf if self.max_difference else math.inf


def distance(output: str, value: Array, reference: Array) -> Distance:
    """Return the distance of `value` from `reference`, two arrays of one shape and any real dtype."""
    actual, expected = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite, reference_finite = bool(np.isfinite(actual).all()), bool(np.isfinite(expected).all())
    identical = value.dtype == reference.dtype and np.array_equal(value, reference)
    known = finite and reference_finite
    return Distance(
        output=output,
        psnr_db=finite_or_none(psnr(expected, actual)) if known else None,
        max_difference=_greatest(actual - expected) if known else None,
        max_reference=_greatest(expected) if known else None,
        finite=finite,
        reference_finite=reference_finite,
        identical=identical,
    )


def finite_or_none(value: float) -> float | None:
    """Return a number as JSON can hold it."""
    return value if math.isfinite(value) else None


def _greatest(values: npt.NDArray[np.float64]) -> float:
    return float(np.max(np.abs(values), initial=0))


@dataclass(frozen=True)
class Verdict:
    """The delegate's verdict on one file, as reports store it.

    `operations` counts the file's operations, `delegated` those on the GPU, `partitions` the pieces that
    the graphs are cut into (including those on the CPU; 0 where nothing is on the GPU), `subgraphs` the
    graphs in the file: each graph of a fully delegated file is one piece. `confirmed` says that the runtime
    logged the replacement. `precision` is that of the arithmetic. `failure` is the reason why the file did
    not compile or run, and `crashed` says whether that was a crash, a time-out or a lack of memory.
    `problems` are the errors in the native log. `reference_failure` is the reason why there are no results
    of the CPU. `integer_weights` says that operations with float results read integer weights. Seconds are
    wall time. `litert` is the version asked, None for the installed one. `pieces` are the verdicts on a
    file that was judged in several.
    """

    COMPUTED: ClassVar = ("ok", "objections", "notes", "threshold_db", "psnr_db", "max_difference")

    file: str
    adapter: str
    adapter_type: str
    precision_asked: Precision
    precision: Precision
    operations: int
    subgraphs: int
    delegated: int
    partitions: int
    confirmed: bool
    rejected: tuple[Rejection, ...]
    outputs: tuple[Distance, ...]
    failure: str | None
    crashed: bool
    problems: tuple[str, ...]
    reference_failure: str | None
    compile_seconds: float | None
    run_seconds: float | None
    seconds: float
    log: tuple[str, ...]
    integer_weights: bool = field(default=False, metadata=UNLESS_EMPTY)
    litert: str | None = field(default=None, metadata=UNLESS_EMPTY)
    pieces: tuple[Verdict, ...] = field(default=(), metadata=UNLESS_EMPTY)

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
        values = [each.psnr for each in self.pieces or self.outputs]
        return math.nan if not values or any(map(math.isnan, values)) else min(values)

    @property
    def psnr_db(self) -> float | None:
        """The lowest of the outputs' PSNR in dB; None where infinite or undefined."""
        return finite_or_none(self.psnr)

    @property
    def max_difference(self) -> float | None:
        """The largest difference of any output; None where one is undefined or there are none."""
        values = [each.max_difference for each in self.outputs]
        known = [value for value in values if value is not None]
        return max(known) if known and len(known) == len(values) else None

    @property
    def threshold_db(self) -> float:
        """The PSNR in dB that every output must reach."""
        return THRESHOLD_DB[self.precision]

    @property
    def ok(self) -> bool:
        """Whether the file is fully delegated and its results match the CPU's."""
        return not self.objections

    @property
    def objections(self) -> tuple[str, ...]:
        """The reasons why the verdict is not ok, a clause each."""
        if self.pieces:
            return tuple(objection for piece in self.pieces for objection in piece.objections)
        return tuple(self._objections())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for readers, even on a good verdict, a clause each."""
        return (*filter(None, [self.precision_note]), *self._notes())

    @property
    def precision_note(self) -> str | None:
        """A clause where the adapter computes in another precision than asked for, or None."""
        if self.precision_asked == self.precision:
            return None
        return other_precision(self.adapter, self.precision, self.precision_asked)

    def _objections(self) -> Iterator[str]:
        if self.rejected or (self.failure is None and self.delegated != self.operations):
            left = self.operations - self.delegated
            every = counted(self.operations, "operation")
            yield f"{left} of {every} {plural(left, 'stays', 'stay')} on the CPU"
        elif self.failure is None and self.partitions != self.subgraphs:
            yield f"the graph is cut into {counted(self.partitions, 'partition')}"
        if not self.operations and self.failure is None:
            yield "it has no operation that a GPU could run"
        if self.failure:
            yield self.failure
        else:
            yield from (f"the native log has the error “{problem}”" for problem in self.problems)
        if self.delegated and not (self.outputs or self.failure or self.reference_failure):
            yield "it has no results that could be compared with the CPU's"
        if self.reference_failure:
            yield f"there are no results of the CPU to compare with: {self.reference_failure}"
        for output in self.outputs:
            yield from self._output_objections(output)

    def _output_objections(self, output: Distance) -> Iterator[str]:
        name, least = output.output, f"{self.threshold_db:g} dB"
        if not output.finite:
            both = "" if output.reference_finite else ", and on the CPU too"
            yield f"{name} has NaN or infinite values{both}"
        elif not output.reference_finite:
            yield f"{name} has NaN or infinite values on the CPU"
        elif output.psnr < self.threshold_db and self.fully_delegated:
            yield f"{name} has a PSNR of only {output.psnr:.1f} dB against the CPU's (required: {least})"
        elif output.identical and not self.confirmed:
            yield f"{name} equals the CPU's to the last bit, and no log line says that the GPU computed it"

    def _notes(self) -> Iterator[str]:
        if self.failure and IM2COL in self.failure:
            yield (
                "TensorFlow Lite checks this for the CPU, before a delegate gets the graph: it says nothing"
                " of the GPU; a decoder of tiles is below it (msd-convert --vae-tile 512)"
            )
        if self.outputs and not self.fully_delegated:
            yield "the results are computed by GPU and CPU together"
        if self.outputs and not self.fully_delegated and self.integer_weights:
            yield "operations with int8 weights round their inputs on the CPU: expect about 50 dB from these"
        for output in self.outputs:
            if output.identical and self.confirmed:
                yield f"{output.output} equals the CPU's to the last bit"


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """Return one verdict from those on the pieces of a file, with the first's name, outputs and times."""
    if len(verdicts) == 1:
        return verdicts[0]
    return replace(
        verdicts[0],
        operations=sum(verdict.operations for verdict in verdicts),
        delegated=sum(verdict.delegated for verdict in verdicts),
        partitions=max(verdict.partitions for verdict in verdicts),
        crashed=any(verdict.crashed for verdict in verdicts),
        failure=next((verdict.failure for verdict in verdicts if verdict.failure), None),
        rejected=tuple(kind for verdict in verdicts for kind in verdict.rejected),
        problems=tuple(problem for verdict in verdicts for problem in verdict.problems),
        pieces=tuple(verdicts),
    )

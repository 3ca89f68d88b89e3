"""The real delegate's run of a file, in the form that a report stores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msd.files.schema import UNLESS_EMPTY
from msd.measure.judging.rejection import Rejection
from msd.measure.judging.verdict import Distance, Verdict


@dataclass(frozen=True)
class OutputDistance:
    """The distance of an output of the GPU from the CPU's, as `msd.measure.judging.verdict.Distance`.

    A number is None where it is infinite or undefined.
    """

    output: str
    psnr_db: float | None
    max_difference: float | None
    max_reference: float | None
    finite: bool
    reference_finite: bool
    identical: bool


@dataclass(frozen=True)
class RejectedKind:
    """A kind of operation that the delegate rejects, as `msd.measure.judging.rejection.Rejection`."""

    kind: str
    reason: str
    operations: tuple[int, ...]
    of: int
    exact: bool
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class DelegateRun:
    """The delegate's verdict on a file, as `msd.measure.judging.verdict.Verdict`.

    `psnr_db` is the lowest and `max_difference` the largest of all `outputs`; None where infinite or
    undefined. `pieces` are the verdicts on the pieces of a file that was judged in several.
    """

    file: str
    ok: bool
    objections: tuple[str, ...]
    notes: tuple[str, ...]
    adapter: str
    adapter_type: str
    precision_asked: str
    precision: str
    operations: int
    subgraphs: int
    delegated: int
    partitions: int
    confirmed: bool
    rejected: tuple[RejectedKind, ...]
    threshold_db: float
    psnr_db: float | None
    max_difference: float | None
    outputs: tuple[OutputDistance, ...]
    failure: str | None
    crashed: bool
    problems: tuple[str, ...]
    reference_failure: str | None
    compile_seconds: float | None
    run_seconds: float | None
    seconds: float
    log: tuple[str, ...]
    pieces: tuple[DelegateRun, ...] = field(default=(), metadata=UNLESS_EMPTY)


def delegate_run(verdicts: Sequence[Verdict]) -> DelegateRun:
    """Return the run of one file from its verdict, or from one verdict for each of its pieces."""
    runs = [_run(verdict) for verdict in verdicts]
    return runs[0] if len(runs) == 1 else _combined(runs)


def _combined(runs: Sequence[DelegateRun]) -> DelegateRun:
    """Return the pieces' runs as one; it has the first piece's name, outputs, times and log."""
    numbers = [run.psnr_db for run in runs if run.psnr_db is not None]
    return replace(
        runs[0],
        ok=all(run.ok for run in runs),
        operations=sum(run.operations for run in runs),
        delegated=sum(run.delegated for run in runs),
        partitions=max(run.partitions for run in runs),
        crashed=any(run.crashed for run in runs),
        failure=next((run.failure for run in runs if run.failure), None),
        rejected=tuple(kind for run in runs for kind in run.rejected),
        problems=tuple(problem for run in runs for problem in run.problems),
        objections=tuple(objection for run in runs for objection in run.objections),
        psnr_db=min(numbers) if len(numbers) == len(runs) else None,
        pieces=tuple(runs),
    )


def _run(verdict: Verdict) -> DelegateRun:
    return DelegateRun(
        file=str(verdict.file),
        ok=verdict.ok,
        objections=verdict.objections,
        notes=(*filter(None, [verdict.precision_note]), *verdict.notes),
        adapter=verdict.adapter,
        adapter_type=verdict.adapter_type,
        precision_asked=verdict.requested,
        precision=verdict.precision,
        operations=verdict.operations,
        subgraphs=verdict.subgraphs,
        delegated=verdict.delegated,
        partitions=verdict.partitions,
        confirmed=verdict.confirmed,
        rejected=tuple(map(_rejected, verdict.rejected)),
        threshold_db=verdict.threshold,
        psnr_db=_finite(verdict.psnr),
        max_difference=_finite(verdict.max_difference),
        outputs=tuple(map(_output, verdict.distances)),
        failure=verdict.failure,
        crashed=verdict.crashed,
        problems=verdict.problems,
        reference_failure=verdict.reference_failure,
        compile_seconds=verdict.compile_seconds,
        run_seconds=verdict.run_seconds,
        seconds=verdict.seconds,
        log=verdict.log,
    )


def _rejected(rejection: Rejection) -> RejectedKind:
    return RejectedKind(
        kind=rejection.kind,
        reason=rejection.reason,
        operations=rejection.operations,
        of=rejection.of,
        exact=rejection.exact,
        tensors=rejection.tensors,
    )


def _output(distance: Distance) -> OutputDistance:
    return OutputDistance(
        output=distance.output,
        psnr_db=_finite(distance.psnr),
        max_difference=_finite(distance.max_difference),
        max_reference=_finite(distance.max_reference),
        finite=distance.finite,
        reference_finite=distance.reference_finite,
        identical=distance.identical,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

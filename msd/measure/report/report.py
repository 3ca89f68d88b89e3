"""The report on .tflite files and the GPU: predictions from rules, and the real delegate's runs.

The dataclasses are the format of `delegation-report --format json` (msd/files/schema.py reads and describes
them).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msd.bundle import RunsOn
from msd.errors import BadReport
from msd.files import schema
from msd.graph.prediction.rules.finding import Finding
from msd.measure.judging.verdict import Verdict

FORMAT = 1
SEVERITIES = ("rejected", "wrong", "unknown", "reported", "note")
"""Worst first: not delegated; delegated, with wrong results; not covered by a rule; seen by others on a
phone; worth knowing."""

FAILING = ("rejected", "wrong", "unknown")
SHOWN = (*FAILING, "reported")
"""What every view shows; notes are for those who ask for more."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimated bytes on the GPU: weights as the delegate keeps them, and activations as they are planned.

    `timeline` has the bytes of live activations at each operation.
    """

    weights: int
    activations: int
    timeline: tuple[int, ...]


@dataclass(frozen=True)
class TrafficSum:
    """What a run's dispatches read and write, in float16: bytes of activations and of weights as stored.

    `arithmetic` counts additions and multiplications; `kinds` are the activations by kind of operator.
    """

    dispatches: int
    activations: int
    weights: int
    arithmetic: int
    kinds: dict[str, int]


@dataclass(frozen=True)
class LeastTime:
    """The least seconds of a run on a device, by its roofline; None where its figures are not known."""

    device: str
    unfused: float | None
    fused: float | None


@dataclass(frozen=True)
class CountedTraffic:
    """The traffic of a run with a dispatch for each operator, and with those that the delegate joins."""

    unfused: TrafficSum
    fused: TrafficSum
    least: tuple[LeastTime, ...]


@dataclass(frozen=True)
class DelegatePrediction:
    """The prediction of one delegate's verdict on a file, on one device.

    `delegated` operations run on the GPU, in `kernels` delegate kernels; the graph is cut into `partitions`,
    including those on the CPU, and `copies` tensors with `copied` bytes in total cross between them.
    `traffic` is that of the file's first graph if all of it ran on the GPU; None in older reports.
    The rules of `release` of the delegate's library predicted; empty in older reports.
    """

    delegate: str
    device: str
    findings: tuple[Finding, ...]
    delegated: int
    partitions: int
    kernels: int
    copies: int
    copied: int
    memory: MemoryEstimate
    traffic: CountedTraffic | None = None
    release: str = ""

    def count(self, severity: str) -> int:
        """Return how many findings are of `severity`."""
        return sum(f.severity == severity for f in self.findings)


@dataclass(frozen=True)
class OutOfRange:
    """A result that float16 does not hold: `what` is "overflow", "sums" (a partial sum may overflow) or
    "vanishing". `largest` is the largest magnitude, or sum, reached; None where that is not finite."""

    op: int
    kind: str
    tensor: str
    what: str
    largest: float | None
    fix: str | None


@dataclass(frozen=True)
class Audit:
    """Results out of float16's range in `runs` runs on "random numbers", "generated images", or files."""

    inputs: str
    runs: int
    results: int
    out_of_range: tuple[OutOfRange, ...]

    @property
    def overflows(self) -> frozenset[tuple[str, str]]:
        """The kind of operation and the tensor of each result that float16 cannot hold."""
        return frozenset((row.kind, row.tensor) for row in self.out_of_range if row.what == "overflow")


@dataclass(frozen=True)
class Witness:
    """Another program's opinion of the file: whether it objects, and its message. It decides nothing."""

    name: str
    ok: bool
    says: str


@dataclass(frozen=True)
class FileReport:
    """One file: its operations by kind, its predictions, and the real delegate's `run` if there was one.

    `graphs` are the operations of each graph that runs, by its name: findings count through all of them.
    `disagreements` say where prediction and verdict differ.
    A file of a bundle that is for the CPU (`runs_on`) is not judged.
    """

    file: str
    sha256: str
    bytes: int
    operations: int
    kinds: dict[str, int]
    predictions: tuple[DelegatePrediction, ...]
    run: Verdict | None = None
    disagreements: tuple[str, ...] = ()
    audit: Audit | None = None
    witnesses: tuple[Witness, ...] = ()
    graphs: dict[str, int] = field(default_factory=dict)
    runs_on: RunsOn = "gpu"

    def passes(self, prediction: DelegatePrediction) -> bool:
        """Whether by a prediction the GPU runs the file: nothing fails, and there is something to run."""
        return self.operations > 0 and not any(f.severity in FAILING for f in prediction.findings)


@dataclass(frozen=True)
class DelegateAdapter:
    """The adapter that the real delegate ran on (`msd.run.runners.adapter.Adapter`), and LiteRT's version."""

    litert: str
    name: str
    type: str
    origin: str
    half_floats: bool
    passed_over: tuple[str, ...]


@dataclass(frozen=True)
class ReportedFault:
    """What somebody reported of the GPU or its driver, whatever the file: not measured by msd."""

    title: str
    sentence: str
    source: str
    reported: str


@dataclass(frozen=True)
class Report:
    """All files of one run of the command; `adapter` is None where the real delegate did not run.

    `failed` are the conditions of --fail-on that were met. `reported` are faults of the device asked for.
    """

    msd: str
    files: tuple[FileReport, ...]
    adapter: DelegateAdapter | None = None
    failed: tuple[str, ...] = ()
    reported: tuple[ReportedFault, ...] = ()
    format: int = FORMAT


def dump_report(report: Report) -> str:
    """Return the report as JSON, ending in a newline."""
    return schema.dump(report)


def load_report(path: Path) -> Report:
    """Return the report in a JSON file; raises BadReport for one that is missing, newer or senseless."""
    return schema.require(BadReport, Report, path, FORMAT, "a report of delegation-report")


@dataclass(frozen=True)
class Group:
    """Findings with the same sentence, except for tensors' names, about operations of one kind.

    `operations` are these, by their places; `sentence` is the first one's.
    """

    severity: str
    kind: str
    code: str
    sentence: str
    fix: str | None
    source: str
    operations: tuple[int, ...]


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Return groups of similar findings, worst and most frequent first."""
    similar: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        similar.setdefault((f.severity, f.kind, f.code, unnamed(f), f.fix, f.source), []).append(f)
    groups = [_group(each) for each in similar.values()]
    return sorted(groups, key=lambda g: (SEVERITIES.index(g.severity), -len(g.operations), g.kind))


def unnamed(finding: Finding) -> str:
    """Return its sentence without what a new file changes: names of tensors, and the operation's place."""
    sentence = re.sub(rf" at {finding.op}, which makes [^,]*,", "", finding.sentence)
    for name in sorted(filter(None, finding.tensors), key=len, reverse=True):
        sentence = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", sentence)
    return sentence


def _group(similar: list[Finding]) -> Group:
    f = similar[0]
    return Group(
        severity=f.severity,
        kind=f.kind,
        code=f.code,
        sentence=f.sentence,
        fix=f.fix,
        source=f.source,
        operations=tuple(each.op for each in similar),
    )


def kinds_of(kinds: Iterable[str]) -> dict[str, int]:
    """Return how many operations there are of each kind, the most frequent first."""
    return dict(Counter(kinds).most_common())

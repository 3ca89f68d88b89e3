"""The difference of two reports: the findings gained and lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from msd.graph.prediction.rules.finding import Severity
from msd.measure.report.report import FAILING, SEVERITIES, DelegatePrediction, FileReport, Report

FindingKey = tuple[Severity, str, str, str]
"""Severity, kind, code and sentence of a finding, which stay the same when operations move."""


@dataclass(frozen=True)
class Change:
    """The change of one delegate's prediction for one file; equal findings are counted."""

    file: str
    delegate: str
    device: str
    operations: tuple[int, int]
    delegated: tuple[int, int]
    weights: tuple[int, int]
    activations: tuple[int, int]
    gained: dict[FindingKey, int]
    lost: dict[FindingKey, int]

    @property
    def worse(self) -> bool:
        """Whether something fails that did not before."""
        emptied = self.operations[1] == 0 < self.operations[0]
        return emptied or any(finding[0] in FAILING for finding in self.gained)


def compare(before: Report, after: Report) -> list[Change]:
    """Return the changes of every file, delegate and device that both reports have, by file name."""
    old = {key: (file, p) for key, file, p in _each(before)}
    return [_change(*old[key], file, p) for key, file, p in _each(after) if key in old]


def missing(before: Report, after: Report) -> list[str]:
    """Return a phrase for each file, delegate and device that only one of the reports has."""
    old, new = ({key for key, _, _ in _each(report)} for report in (before, after))
    only = [*((key, "before") for key in sorted(old - new)), *((key, "now") for key in sorted(new - old))]
    return [f"{name} for {delegate} on {device}: only {when}" for (name, delegate, device), when in only]


def _each(report: Report) -> Iterator[tuple[tuple[str, str, str], FileReport, DelegatePrediction]]:
    for file in report.files:
        for p in file.predictions:
            yield (file.file.rpartition("/")[2], p.delegate, p.device), file, p


def _change(
    old_file: FileReport, old: DelegatePrediction, new_file: FileReport, new: DelegatePrediction
) -> Change:
    before, after = (
        Counter((f.severity, f.kind, f.code, f.sentence) for f in p.findings) for p in (old, new)
    )
    return Change(
        file=new_file.file,
        delegate=new.delegate,
        device=new.device,
        operations=(old_file.operations, new_file.operations),
        delegated=(old.delegated, new.delegated),
        weights=(old.memory.weights, new.memory.weights),
        activations=(old.memory.activations, new.memory.activations),
        gained=_ordered(after - before),
        lost=_ordered(before - after),
    )


def _ordered(findings: Counter[FindingKey]) -> dict[FindingKey, int]:
    return dict(sorted(findings.items(), key=lambda item: (SEVERITIES.index(item[0][0]), item[0])))

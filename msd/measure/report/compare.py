"""The difference of two reports: the findings gained and lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from msd.graph.prediction.rules.finding import Severity
from msd.measure.report.report import FAILING, SEVERITIES, DelegatePrediction, FileReport, Report, unnamed

FindingKey = tuple[Severity, str, str, str]
"""Severity, kind, code and unnamed sentence of a finding: they stay the same when operations move."""


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
    old = {key: (file, p) for key, file, p in _each(before, after)}
    return [_change(*old[key], file, p) for key, file, p in _each(after, before) if key in old]


def is_worse(before: Report, after: Report) -> bool:
    """Whether something fails that did not before: a finding, a file that is new, a run, or an overflow."""
    old = {key for key, _, _ in _each(before, after)}
    fresh = [file.passes(p) for key, file, p in _each(after, before) if key not in old]
    ran = [one != other and _is_worse(one, other) for one, other in files_of_both(before, after)]
    return any(change.worse for change in compare(before, after)) or not all(fresh) or any(ran)


def _is_worse(before: FileReport, after: FileReport) -> bool:
    """Whether the real delegate, or float16, fails where it did not before, as far as both were asked."""
    one, other = before.run, after.run
    if one and other and not other.ok and (one.ok or other.delegated < one.delegated):
        return True
    return bool(before.audit and after.audit and after.audit.overflows - before.audit.overflows)


def files_of_both(before: Report, after: Report) -> list[tuple[FileReport, FileReport]]:
    """Return the files that both reports have, by name, as the one and the other tell of them."""
    old = dict(zip(_names(before, after), before.files, strict=True))
    new = zip(_names(after, before), after.files, strict=True)
    return [(old[name], file) for name, file in new if name in old]


def missing(before: Report, after: Report) -> list[str]:
    """Return a phrase for each file, delegate and device that only one of the reports has."""
    old, new = ({key for key, _, _ in _each(*pair)} for pair in ((before, after), (after, before)))
    only = [*((key, "before") for key in sorted(old - new)), *((key, "now") for key in sorted(new - old))]
    return [f"{name} for {delegate} on {device}: only {when}" for (name, delegate, device), when in only]


def _each(
    report: Report, other: Report
) -> Iterator[tuple[tuple[str, str, str], FileReport, DelegatePrediction]]:
    for name, file in zip(_names(report, other), report.files, strict=True):
        for p in file.predictions:
            yield (name, p.delegate, p.device), file, p


def _names(report: Report, other: Report) -> list[str]:
    """Return the names of a report's files: the last parts of their paths, as many as tell apart all of each.

    Both reports may have been made in other folders.
    """
    paths = [[file.file.split("/") for file in each.files] for each in (report, other)]
    longest = max((len(parts) for each in paths for parts in each), default=1)
    for count in range(1, longest + 1):
        tails = [["/".join(parts[-count:]) for parts in each] for each in paths]
        if all(len({*each}) == len(each) for each in tails):
            break
    return tails[0]


def _change(
    old_file: FileReport, old: DelegatePrediction, new_file: FileReport, new: DelegatePrediction
) -> Change:
    before, after = (
        Counter((f.severity, f.kind, f.code, unnamed(f)) for f in p.findings) for p in (old, new)
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

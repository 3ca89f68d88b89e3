"""The conditions of --fail-on that a report meets."""

from __future__ import annotations

from collections.abc import Sequence

from msd.measure.judging.verdict import Verdict
from msd.measure.report.compare import Change
from msd.measure.report.report import SEVERITIES, Report


def conditions_met(
    report: Report, verdicts: Sequence[Verdict], changes: Sequence[Change], fail_on: Sequence[str]
) -> tuple[str, ...]:
    """Return the conditions of `fail_on` that the report meets; a file of no operations is rejected too."""
    predictions = [(file, p) for file in report.files for p in file.predictions]
    met = {severity: any(p.count(severity) for _, p in predictions) for severity in SEVERITIES}
    met["rejected"] |= not all(file.operations for file, _ in predictions)
    met["run"] = not all(verdict.ok for verdict in verdicts)
    met["disagreement"] = any(file.disagreements for file in report.files)
    met["audit"] = any(
        r.what == "overflow" for file in report.files if file.audit for r in file.audit.out_of_range
    )
    met["worse"] = any(change.worse for change in changes)
    return tuple(condition for condition in fail_on if met[condition])

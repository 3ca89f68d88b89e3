"""The conditions of --fail-on that a report meets."""

from __future__ import annotations

from collections.abc import Sequence

from msd.measure.judging.verdict import Verdict
from msd.measure.report.compare import is_worse
from msd.measure.report.report import SEVERITIES, Report


def conditions_met(
    report: Report, verdicts: Sequence[Verdict], earlier: Report | None, fail_on: Sequence[str]
) -> tuple[str, ...]:
    """Return the conditions of `fail_on` that the report meets, compared with an `earlier` one.

    A file of no operations is rejected too.
    """
    predictions = [(file, p) for file in report.files for p in file.predictions]
    met = {severity: any(p.count(severity) for _, p in predictions) for severity in SEVERITIES}
    met["rejected"] |= not all(file.operations for file, _ in predictions)
    met["run"] = not all(verdict.ok for verdict in verdicts)
    met["disagreement"] = any(file.disagreements for file in report.files)
    met["audit"] = any(file.audit and file.audit.overflows for file in report.files)
    met["worse"] = earlier is not None and is_worse(earlier, report)
    return tuple(condition for condition in fail_on if met[condition])

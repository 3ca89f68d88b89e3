"""What the real delegate said of an app's files, from a report of delegation-report."""

from __future__ import annotations

from dataclasses import dataclass

from msd.bundle import Bundle
from msd.errors import BadReport
from msd.measure.judging.verdict import Verdict
from msd.measure.report.report import Report


@dataclass(frozen=True)
class Delegation:
    """The real delegate's verdict on one file, from delegation-report; `psnr_db` is against the CPU."""

    role: str
    adapter: str
    precision: str
    operations: int
    delegated: int
    partitions: int
    psnr_db: float | None = None


def delegation(bundle: Bundle, report: Report | None) -> tuple[Delegation, ...]:
    """Return the verdicts in a report on this bundle's files, identified by their SHA-256.

    Raises BadReport for a report without any of its files.
    """
    roles = {part.sha256: name for name, part in bundle.manifest.components.items()}
    files = report.files if report else ()
    verdicts = tuple(_verdict(roles[f.sha256], f.run) for f in files if f.sha256 in roles and f.run)
    if report and not verdicts:
        raise BadReport(f"the report has no run of a file of {bundle.folder}; delegation-report makes one")
    return verdicts


def _verdict(role: str, run: Verdict) -> Delegation:
    return Delegation(
        role=role,
        adapter=run.adapter,
        precision=run.precision,
        operations=run.operations,
        delegated=run.delegated,
        partitions=run.partitions,
        psnr_db=run.psnr_db,
    )

"""The work behind `msd report`: predictions, the real delegate's verdicts, witnesses and audits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

import msd
from msd.bundle import MANIFEST
from msd.cli.plain import escape
from msd.cli.report_files import Files, JudgedFile, Shapes, sizes_apart
from msd.files.scratch import scratch_folder
from msd.measure.report.phrases import fails

if TYPE_CHECKING:
    from msd.measure.judging import Verdict
    from msd.measure.judging.browser import BrowserVerdict
    from msd.measure.report.report import Audit, DelegateAdapter, FileReport, Report
    from msd.run.runners.runner import Precision, VulkanAdapter


@dataclass(frozen=True)
class ReportRequest:
    """The files of a report and its settings, which are the command's options of the same names.

    `measured` takes the place of the real delegate: what a browser measured. Without it,
    `run` also runs the real delegate, within `timeout` seconds for each compilation and each run and `memory`
    bytes for each process. `audit` measures float16 ranges, on the .npz files `inputs` if there are any.
    `shapes` fix inputs that leave sizes open.
    """

    paths: tuple[Path, ...]
    files: Files
    delegates: tuple[str, ...]
    device: str
    run: bool
    setup: bool
    precision: Precision
    measured: BrowserVerdict | None
    pieces: int
    timeout: float
    memory: int | None
    audit: bool
    inputs: tuple[Path, ...]
    shapes: Shapes


@dataclass(frozen=True)
class Findings:
    """A report, with the adapter and the delegate's own verdicts for the terminal, or a browser's."""

    report: Report
    adapter: VulkanAdapter | None
    verdicts: list[Verdict]
    measured: BrowserVerdict | None = None

    @property
    def are_as_predicted(self) -> bool:
        """Whether LiteRT's delegate, the only one asked of, takes every file, as the rules say."""
        files = self.report.files
        rules_pass = all(
            file.predictions and not file.disagreements and not any(map(fails, file.predictions))
            for file in files
        )
        asked = {prediction.delegate for file in files for prediction in file.predictions}
        good = len(self.verdicts) >= len(files) and all(verdict.ok for verdict in self.verdicts)
        return good and rules_pass and asked == {"litert-gpu"}


class StderrHandler(logging.Handler):
    """Prints log messages on stderr during a long preparation."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(escape(record.getMessage()), style="dim", highlight=False)


def collect_findings(request: ReportRequest, stderr: Console) -> Findings:
    """Return the findings for `request`; `stderr` shows progress. Raises BadModelFile and NoDelegate.

    Each size of a file that has several is judged as a file of its own.
    """
    with scratch_folder() as folder:
        return _collect(request, sizes_apart(request.files, folder, request.shapes), stderr)


def _collect(request: ReportRequest, files: Sequence[JudgedFile], stderr: Console) -> Findings:
    from msd.graph.prediction.device import find_device
    from msd.measure.report.examine import examine, reported_faults
    from msd.measure.report.report import Report

    device = find_device(request.device)
    reports = [examine(file.path, request.delegates, device, file.runs_on) for file in files]
    adapter: VulkanAdapter | None = None
    verdicts: list[list[Verdict]] = []
    if request.measured is not None:
        verdicts = [_measured(report, request.measured) for report in reports]
        reports = [_with_verdicts(*each) for each in zip(reports, verdicts, strict=True)]
    elif request.run or request.setup:
        adapter = _adapter(stderr)
        verdicts = [_judge(file, request, adapter, stderr) if file.runs_on == "gpu" else [] for file in files]
        reports = [
            _with_run(report, file_verdicts, request.timeout, stderr)
            for report, file_verdicts in zip(reports, verdicts, strict=True)
        ]
    if request.audit:
        audits = _audits(request, files, stderr)
        reports = [replace(r, audit=next(audits)) if r.runs_on == "gpu" else r for r in reports]
    reports = [replace(report, file=file.label) for report, file in zip(reports, files, strict=True)]
    report = Report(
        msd.__version__, tuple(reports), _describe_adapter(adapter), reported=reported_faults(device)
    )
    flat = [verdict for file_verdicts in verdicts for verdict in file_verdicts]
    return Findings(report, adapter, flat, request.measured)


def _with_run(report: FileReport, verdicts: Sequence[Verdict], timeout: float, stderr: Console) -> FileReport:
    """Return the report of a file with the real delegate's run of it and the witnesses, if it was judged."""
    from msd.measure.report.witness import witnesses

    if not verdicts:
        return report
    judged = _with_verdicts(report, verdicts)
    with stderr.status(f"{escape(Path(report.file).name)}: other programs …"):
        others = witnesses(Path(report.file), timeout)
    return replace(judged, witnesses=others)


def _with_verdicts(report: FileReport, verdicts: Sequence[Verdict]) -> FileReport:
    from msd.measure.report.delegate_run import delegate_run
    from msd.measure.report.examine import disagreements

    if not verdicts:
        return report
    judged = replace(report, run=delegate_run(verdicts))
    return replace(judged, disagreements=disagreements(judged))


def _measured(report: FileReport, measured: BrowserVerdict) -> list[Verdict]:
    """Return what a browser measured of a file, none for one that runs on the CPU."""
    if report.runs_on != "gpu":
        return []
    return [measured.verdict(Path(report.file), report.sha256, len(report.graphs))]


def _audits(request: ReportRequest, files: Sequence[JudgedFile], stderr: Console) -> Iterator[Audit]:
    """Yield the audit of each file for the GPU; a bundle generates its images once for each size."""
    from msd.measure.report.float16_audit import audited, draw

    bundles = [path for path in request.paths if (path / MANIFEST).is_file() and not request.inputs]
    with stderr.status("Ranges on the CPU …") as status:
        draw_once = cache(draw)
        for file in (file for file in files if file.runs_on == "gpu"):
            status.update(f"{escape(file.label)}: ranges on the CPU …")
            bundle = file.original.parent
            drawn = draw_once(bundle, file.size) if bundle in bundles else None
            yield audited(file.path, drawn, request.inputs)


def _describe_adapter(adapter: VulkanAdapter | None) -> DelegateAdapter | None:
    from msd.measure.report.report import DelegateAdapter

    if adapter is None:
        return None
    return DelegateAdapter(
        litert=version("ai-edge-litert"),
        name=adapter.name,
        type=adapter.type,
        origin=adapter.origin,
        half_floats=adapter.half_floats,
        passed_over=adapter.passed_over,
    )


def _adapter(stderr: Console) -> VulkanAdapter:
    from msd.run.runners.adapter import find

    logger, handler = logging.getLogger("msd.run.runners"), StderrHandler(stderr)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with stderr.status("Looking for a Vulkan adapter …"):
            return find()
    finally:
        logger.removeHandler(handler)


def _judge(
    judged: JudgedFile, request: ReportRequest, adapter: VulkanAdapter, stderr: Console
) -> list[Verdict]:
    from msd.measure.judging import judge
    from msd.measure.judging.pieces import judge_pieces

    file, precision, timeout, memory = judged.path, request.precision, request.timeout, request.memory
    with stderr.status(f"{escape(Path(judged.label).name)}: on {escape(adapter.name)} …"):
        if request.pieces == 1:
            verdict = judge(file, precision=precision, timeout=timeout, memory=memory, adapter=adapter)
            return [replace(verdict, file=Path(judged.label))]
        pieces = judge_pieces(
            file, request.pieces, precision=precision, timeout=timeout, memory=memory, adapter=adapter
        )
        return list(pieces)

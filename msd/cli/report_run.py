"""The work behind `msd report`: predictions, the real delegate's verdicts, witnesses and audits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import msd
from msd.bundle import MANIFEST
from msd.cli.plain import escape, say
from msd.cli.report_files import Files, JudgedFile, Shapes, sizes_apart
from msd.files.scratch import scratch_folder

if TYPE_CHECKING:
    from msd.measure.judging import Verdict
    from msd.measure.judging.browser import BrowserVerdict
    from msd.measure.report.report import Audit, DelegateAdapter, FileReport, Report, ReportedFault
    from msd.run.runners.runner import Precision, VulkanAdapter
    from msd.run.runners.wheels.environment import LiteRt


@dataclass(frozen=True)
class ReportRequest:
    """The files of a report and its settings, which are the command's options of the same names.

    `measured` takes the place of the real delegate: what a browser measured. Without it,
    `run` also runs the real delegate, within `timeout` seconds for each compilation and each run and `memory`
    bytes for each process. `audit` measures float16 ranges, on the .npz files `inputs` if there are any.
    `shapes` fix inputs that leave sizes open. `litert` names versions of LiteRT, or environments with one, in
    place of the installed one; `tflite` is a release of tflite-gpu, TensorFlow Lite's or LiteRT's.
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
    litert: tuple[str, ...] = ()
    tflite: str | None = None


@dataclass(frozen=True)
class Judged:
    """A file, and the LiteRT to judge it by: its `release`, None for the installed one, and its environment.

    `litert` is None where only rules are asked, and for the installed one. `label` is the file's, with the
    release where there are several.
    """

    file: JudgedFile
    label: str
    release: str | None = None
    litert: LiteRt | None = None


@dataclass(frozen=True)
class Findings:
    """A report, with the adapter and the delegate's own verdicts for the terminal, or a browser's.

    `unjudged` and `unaudited` are the labels of the files that are still without a verdict or an audit.
    """

    report: Report
    adapter: VulkanAdapter | None
    verdicts: list[Verdict]
    measured: BrowserVerdict | None = None
    unjudged: tuple[str, ...] = ()
    unaudited: tuple[str, ...] = ()

    @property
    def are_as_predicted(self) -> bool:
        """Whether LiteRT's delegate, the only one asked of, takes every file, as the rules say."""
        files = self.report.files
        rules_pass = all(
            file.predictions and not file.disagreements and all(map(file.passes, file.predictions))
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


OnJudged = Callable[[Findings], None]
"""Called with what has been found so far, once the real delegate or an audit is done with a file."""


@dataclass
class _Known:
    """What is known so far of the files `judged`: the report of each, and the delegate's verdicts on it."""

    request: ReportRequest
    judged: Sequence[Judged]
    reports: list[FileReport]
    reported: tuple[ReportedFault, ...]
    verdicts: dict[int, Sequence[Verdict]] = field(default_factory=dict)
    adapter: VulkanAdapter | None = None

    def findings(self) -> Findings:
        from msd.measure.report.report import Report

        audited = {number for number, report in enumerate(self.reports) if report.audit}
        pairs = zip(self.reports, self.judged, strict=True)
        files = tuple(replace(report, file=each.label) for report, each in pairs)
        adapter = _describe_adapter(self.adapter, self.judged)
        report = Report(msd.__version__, files, adapter, reported=self.reported)
        verdicts = [verdict for of_file in self.verdicts.values() for verdict in of_file]
        return Findings(
            report,
            self.adapter,
            verdicts,
            self.request.measured,
            unjudged=self._missing(set(self.verdicts)) if self.adapter else (),
            unaudited=self._missing(audited) if self.request.audit else (),
        )

    def _missing(self, done: set[int]) -> tuple[str, ...]:
        """Return the labels of the files for the GPU whose numbers are not among those `done`."""
        files = enumerate(self.judged)
        return tuple(each.label for n, each in files if each.file.runs_on == "gpu" and n not in done)


def collect_findings(
    request: ReportRequest, stderr: Console, on_judged: OnJudged = lambda findings: None
) -> Findings:
    """Return the findings for `request`; `stderr` shows progress. Raises BadModelFile and NoDelegate.

    Each size of a file that has several is judged as a file of its own.
    """
    with scratch_folder() as folder:
        files = sizes_apart(request.files, folder, request.shapes)
        known = _predict(request, files, stderr)
        if request.measured is not None:
            known = _of_measured_sizes(known, request.measured)
            for number, report in enumerate(known.reports):
                known.verdicts[number] = verdicts = _measured(report, request.measured)
                known.reports[number] = _with_verdicts(report, verdicts)
        elif request.run or request.setup:
            _judge_all(known, request, stderr, on_judged)
        if request.audit:
            _audit_all(known, request, stderr, on_judged)
        return known.findings()


def _predict(request: ReportRequest, files: Sequence[JudgedFile], stderr: Console) -> _Known:
    from msd.graph.prediction.device import find_device
    from msd.measure.report.examine import examine, reported_faults

    _tell_tflite(request.tflite, stderr)
    device, judged = find_device(request.device), list(_by_version(request, files, stderr))
    reports = [
        examine(
            each.file.path,
            request.delegates,
            device,
            each.file.runs_on,
            {"litert-gpu": each.release, "tflite-gpu": request.tflite},
        )
        for each in judged
    ]
    return _Known(request, judged, reports, reported_faults(device))


def _judge_all(known: _Known, request: ReportRequest, stderr: Console, on_judged: OnJudged) -> None:
    """Add the real delegate's verdict on each file for the GPU."""
    known.adapter = adapter = _adapter(stderr)
    for number, each in enumerate(known.judged):
        if each.file.runs_on == "gpu":
            known.verdicts[number] = verdicts = _judge(each, request, adapter, stderr)
            known.reports[number] = _with_verdicts(known.reports[number], verdicts)
            on_judged(known.findings())
    for number in known.verdicts:
        known.reports[number] = _with_witnesses(known.reports[number], request.timeout, stderr)


def _audit_all(known: _Known, request: ReportRequest, stderr: Console, on_judged: OnJudged) -> None:
    """Add the audit of each file for the GPU."""
    audits = _audits(request, [each.file for each in known.judged], stderr)
    for number, report in enumerate(known.reports):
        if report.runs_on == "gpu":
            known.reports[number] = replace(report, audit=next(audits))
            on_judged(known.findings())


def _by_version(request: ReportRequest, files: Sequence[JudgedFile], stderr: Console) -> Iterator[Judged]:
    """Yield each file with each version of LiteRT that judges it, the installed one where none is named."""
    if not request.litert:
        yield from (Judged(file, file.label) for file in files)
        return
    found = _litert_by_release(request, stderr)
    for file in files:
        for release, litert in found.items():
            many = len(found) > 1 and file.runs_on == "gpu"
            label = f"{file.label} with LiteRT {release}" if many else file.label
            yield Judged(file, label, release, litert)


def _litert_by_release(request: ReportRequest, stderr: Console) -> dict[str, LiteRt | None]:
    """Return the LiteRT of each release, installed where it is to run; `stderr` tells of missing rules."""
    from msd.graph.prediction.registry import find_delegate
    from msd.graph.prediction.releases import NIGHTLY
    from msd.run.runners.wheels.environment import find_litert, is_version

    found: dict[str, LiteRt | None] = {}
    with _saying_what_is_prepared(stderr), stderr.status("Looking for LiteRT …"):
        for name in request.litert:
            if request.run or not is_version(name):
                litert = find_litert(name)
                found[litert.version] = litert
            else:
                found[name] = None
    rules = find_delegate("litert-gpu").rules
    for release in found:
        known = rules.under(release).release
        if release not in (known, NIGHTLY):
            stderr.print(
                f"LiteRT {escape(release)} is predicted by the rules of {known}, the newest with rules."
            )
    return found


def _tell_tflite(release: str | None, stderr: Console) -> None:
    """Say whose rules predict tflite-gpu of `release`, and what they rest on; raises BadConfig for none."""
    from msd.graph.prediction.registry import find_delegate

    if release:
        rules = find_delegate("tflite-gpu").rules
        known = rules.under(release).release
        stderr.print(f"tflite-gpu of {escape(release)}: the rules of {known}, {rules.evidence[known]}.")


def _with_witnesses(report: FileReport, timeout: float, stderr: Console) -> FileReport:
    """Return the report of a file with what other programs say of it."""
    from msd.measure.report.witness import witnesses

    with stderr.status(f"{escape(Path(report.file).name)}: other programs …"):
        others = witnesses(Path(report.file), timeout)
    return replace(report, witnesses=others)


def _with_verdicts(report: FileReport, verdicts: Sequence[Verdict]) -> FileReport:
    from msd.measure.judging.verdict import combined
    from msd.measure.report.examine import disagreements

    if not verdicts:
        return report
    judged = replace(report, run=combined(verdicts))
    return replace(judged, disagreements=disagreements(judged))


def _of_measured_sizes(known: _Known, measured: BrowserVerdict) -> _Known:
    """Return what is known but for sizes that a page of another size of the same file has not; says these."""
    pairs = [*zip(known.judged, known.reports, strict=True)]
    theirs = {judged.file.original for judged, report in pairs if measured.has(report.sha256)}
    left = [j for j, report in pairs if j.file.original in theirs and not measured.has(report.sha256)]
    for label in (each.label for each in left):
        say(f"note: the page has another size than {label}, which is not judged", err=True)
    kept = [pair for pair in pairs if pair[0] not in left]
    return replace(known, judged=[judged for judged, _ in kept], reports=[report for _, report in kept])


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


def _describe_adapter(adapter: VulkanAdapter | None, judged: Sequence[Judged]) -> DelegateAdapter | None:
    from msd.measure.report.report import DelegateAdapter

    if adapter is None:
        return None
    asked = dict.fromkeys(each.litert.version for each in judged if each.litert)
    return DelegateAdapter(
        litert=", ".join(asked) or version("ai-edge-litert"),
        name=adapter.name,
        type=adapter.type,
        origin=adapter.origin,
        half_floats=adapter.half_floats,
        passed_over=adapter.passed_over,
    )


def _adapter(stderr: Console) -> VulkanAdapter:
    from msd.run.runners.adapter import find

    with _saying_what_is_prepared(stderr), stderr.status("Looking for a Vulkan adapter …"):
        return find()


@contextmanager
def _saying_what_is_prepared(stderr: Console) -> Iterator[None]:
    """Print what is said of a long preparation inside a `with` block."""
    logger, handler = logging.getLogger("msd.run.runners"), StderrHandler(stderr)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _judge(each: Judged, request: ReportRequest, adapter: VulkanAdapter, stderr: Console) -> list[Verdict]:
    from msd.measure.judging import judge
    from msd.measure.judging.pieces import judge_pieces

    file, label = each.file.path, Path(each.label)
    judging: dict[str, Any] = {
        "precision": request.precision,
        "timeout": request.timeout,
        "memory": request.memory,
        "adapter": adapter,
        "litert": each.litert,
    }
    with stderr.status(f"{escape(label.name)}: on {escape(adapter.name)} …"):
        if request.pieces == 1:
            return [replace(judge(file, **judging), file=str(label))]
        return list(judge_pieces(file, request.pieces, **judging))

"""The work behind `msd report`: predictions, the real delegate's verdicts, witnesses and audits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

import msd
from msd.bundle import MANIFEST, RunsOn, open_bundle
from msd.errors import BadBundle
from msd.families import Family, families

if TYPE_CHECKING:
    from msd.judging import Verdict
    from msd.report.report import Audit, DelegateAdapter, FileReport, Report
    from msd.runners.adapter import VulkanAdapter
    from msd.runners.runner import Precision

Files = Sequence[tuple[Path, RunsOn]]
"""The files to judge; those for the CPU are only listed."""


@dataclass(frozen=True)
class ReportRequest:
    """The files of a report and its settings, which are the command's options of the same names.

    `run` also runs the real delegate, within `timeout` seconds for each compilation and each run and `memory`
    bytes for each process. `audit` measures float16 ranges, on the .npz files `inputs` if there are any.
    """

    paths: tuple[Path, ...]
    files: Files
    delegates: tuple[str, ...]
    device: str
    run: bool
    setup: bool
    precision: Precision
    pieces: int
    timeout: float
    memory: int | None
    audit: bool
    inputs: tuple[Path, ...]


@dataclass(frozen=True)
class Findings:
    """A report, with the adapter and the delegate's own verdicts for the terminal."""

    report: Report
    adapter: VulkanAdapter | None
    verdicts: list[Verdict]


class StderrHandler(logging.Handler):
    """Prints log messages on stderr during a long preparation."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(escape(record.getMessage()), style="dim", highlight=False)


def collect_findings(request: ReportRequest, stderr: Console) -> Findings:
    """Return the findings for `request`; `stderr` shows progress. Raises BadModelFile and NoDelegate."""
    from msd.prediction.device import find_device
    from msd.report.examine import examine
    from msd.report.report import Report

    device = find_device(request.device)
    reports = [examine(file, request.delegates, device, runs_on) for file, runs_on in request.files]
    adapter: VulkanAdapter | None = None
    verdicts: list[list[Verdict]] = []
    if request.run or request.setup:
        adapter = _adapter(stderr)
        verdicts = [
            _judge(file, request, adapter, stderr) if runs_on == "gpu" else []
            for file, runs_on in request.files
        ]
        reports = [
            _with_run(report, file_verdicts, request.timeout, stderr)
            for report, file_verdicts in zip(reports, verdicts, strict=True)
        ]
    if request.audit:
        audits = _audits(request, stderr)
        reports = [replace(r, audit=next(audits)) if r.runs_on == "gpu" else r for r in reports]
    report = Report(msd.__version__, tuple(reports), _describe_adapter(adapter))
    return Findings(report, adapter, [verdict for file_verdicts in verdicts for verdict in file_verdicts])


def _with_run(report: FileReport, verdicts: Sequence[Verdict], timeout: float, stderr: Console) -> FileReport:
    """Return the report of a file with the real delegate's run of it and the witnesses, if it was judged."""
    from msd.report.delegate_run import delegate_run
    from msd.report.examine import disagreements
    from msd.report.witness import witnesses

    if not verdicts:
        return report
    judged = replace(report, run=delegate_run(verdicts))
    with stderr.status(f"{escape(Path(report.file).name)}: other programs …"):
        others = witnesses(Path(report.file), timeout)
    return replace(judged, disagreements=disagreements(judged), witnesses=others)


def _audits(request: ReportRequest, stderr: Console) -> Iterator[Audit]:
    """Yield the audit of each file for the GPU; a bundle generates its images once for all of its files."""
    from msd.report.float16_audit import audited, draw

    bundles = [path for path in request.paths if (path / MANIFEST).is_file() and not request.inputs]
    with stderr.status("Ranges on the CPU …") as status:
        drawn = {bundle: draw(bundle) for bundle in bundles}
        for file in (file for file, runs_on in request.files if runs_on == "gpu"):
            status.update(f"{escape(file.name)}: ranges on the CPU …")
            yield audited(file, drawn.get(file.parent), request.inputs)


def _describe_adapter(adapter: VulkanAdapter | None) -> DelegateAdapter | None:
    from msd.report.report import DelegateAdapter

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


def files_of(paths: tuple[Path, ...]) -> Files:
    """Return the .tflite files that `paths` name; raises BadBundle."""
    files: list[tuple[Path, RunsOn]] = []
    for path in paths:
        files += _components(path) if path.is_dir() else [(path, "gpu")]
    return files


def _components(folder: Path) -> Files:
    """Return the files that the folder's manifest lists; those of a whole family where it has none."""
    if (folder / MANIFEST).exists():
        parts = open_bundle(folder).manifest.components.values()
        return [(folder / part.file, part.runs_on) for part in parts]
    missing = [(family, _missing(folder, family)) for family in families().values()]
    family, lacking = min(missing, key=lambda pair: len(pair[1]))
    if lacking:
        names = ", ".join(lacking)
        raise BadBundle(f"{folder} has neither {MANIFEST} nor {names}; name the files to judge instead")
    runs_on: dict[str, RunsOn] = dict.fromkeys(family.lookups, "cpu")
    listed = [(folder / f"{name}.tflite", runs_on.get(name, "gpu")) for name in family.files]
    return [(path, processor) for path, processor in listed if path.is_file()]


def _missing(folder: Path, family: Family) -> list[str]:
    """Return the files of a family that a folder lacks."""
    names = [f"{component}.tflite" for component in family.required]
    return [name for name in names if not (folder / name).is_file()]


def _adapter(stderr: Console) -> VulkanAdapter:
    from msd.runners.adapter import find

    logger, handler = logging.getLogger("msd.runners"), StderrHandler(stderr)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with stderr.status("Looking for a Vulkan adapter …"):
            return find()
    finally:
        logger.removeHandler(handler)


def _judge(file: Path, request: ReportRequest, adapter: VulkanAdapter, stderr: Console) -> list[Verdict]:
    from msd.judging import judge
    from msd.judging.pieces import judge_pieces

    precision, timeout, memory = request.precision, request.timeout, request.memory
    with stderr.status(f"{escape(file.name)}: on {escape(adapter.name)} …"):
        if request.pieces == 1:
            return [judge(file, precision=precision, timeout=timeout, memory=memory, adapter=adapter)]
        pieces = judge_pieces(
            file, request.pieces, precision=precision, timeout=timeout, memory=memory, adapter=adapter
        )
        return list(pieces)

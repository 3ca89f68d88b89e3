"""Predict the verdict on one file from rules: each operation, each size, then partitions and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msd.bundle import RunsOn, file_facts
from msd.graph import tflite
from msd.graph.ir import Graph, Model
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.prediction.device import Device
from msd.graph.prediction.faults import driver_faults, reported_findings
from msd.graph.prediction.memory import estimate
from msd.graph.prediction.partition import Partitions, partition
from msd.graph.prediction.registry import find_delegate
from msd.graph.prediction.rules import predict, rules_of
from msd.graph.prediction.rules.finding import Finding, Severity
from msd.graph.prediction.size_limits import size_problems
from msd.measure.judging.rejection import logged
from msd.measure.judging.verdict import Verdict
from msd.measure.report.counted_traffic import counted_traffic
from msd.measure.report.report import (
    DelegatePrediction,
    FileReport,
    MemoryEstimate,
    ReportedFault,
    kinds_of,
)

REFUSED = ("rejected", "unknown")
BROKEN = ("shader", "groups")
"""The codes of operators that the delegate takes, though their shaders do not compile."""
FATAL = ("graph", "dynamic", "crash")
"""Those of operators that it takes, and then it refuses the file, or dies."""
TOO_LARGE = "exceeded maximum texture size"
"""In the words of the adapter that the real delegate ran on."""

SIZES = "docs/delegates.md, sizes"


def examine(
    path: Path,
    delegates: Sequence[str],
    device: Device,
    runs_on: RunsOn = "gpu",
    releases: Mapping[str, str | None] = MappingProxyType({}),
) -> FileReport:
    """Return the prediction of each delegate on `device` for the file at `path`; raises BadModelFile.

    There is none for a file that runs on the CPU. `releases` are those of the delegates, by name; the
    one that msd installs where there is none. Raises BadConfig for one older than all with rules.
    """
    model, facts = tflite.read(path), file_facts(path)
    graphs = executed_graphs(model)
    ops = [op for graph in graphs for op in graph.ops]
    judges = delegates if runs_on == "gpu" else ()
    predictions = tuple(_prediction(model, name, device.under(name), releases.get(name)) for name in judges)
    return FileReport(
        file=str(path),
        sha256=facts.sha256,
        bytes=facts.bytes,
        operations=len(ops),
        kinds=kinds_of(op.kind for op in ops),
        predictions=predictions,
        graphs={graph.name or f"graph {i}": len(graph.ops) for i, graph in enumerate(graphs)},
        runs_on=runs_on,
    )


def _prediction(model: Model, delegate: str, device: Device, release: str | None) -> DelegatePrediction:
    graph = model.main
    too_large = tuple(_sizes(graph, device))
    findings = (
        *predict(model, delegate, release),
        *too_large,
        *reported_findings(model, delegate, device, release),
    )
    refused = [f for f in findings if f.severity in REFUSED]
    # What does not fit fails when the delegate is set up, and then nothing runs on the GPU.
    lost = any(f.severity == "rejected" for f in too_large)
    memory, cuts = estimate(graph, device), [] if lost else _delegated(model, refused)
    return DelegatePrediction(
        delegate=delegate,
        device=device.name,
        findings=tuple(sorted(findings, key=lambda f: f.op)),
        delegated=sum(len(cut.on_gpu) for cut in cuts),
        partitions=sum(len(cut.pieces) for cut in cuts),
        kernels=sum(cut.kernels for cut in cuts),
        copies=sum(len(cut.copies) for cut in cuts),
        copied=sum(copy.bytes for cut in cuts for copy in cut.copies),
        memory=MemoryEstimate(memory.weights_bytes, memory.activations_bytes, memory.timeline),
        traffic=counted_traffic(graph, device, delegate),
        release=rules_of(delegate, release).release,
    )


def _delegated(model: Model, refused: Sequence[Finding]) -> list[Partitions]:
    """Return the partition of each graph of which a delegate takes a part, the bodies of loops among them.

    There is none where one of the operators that it takes makes it refuse the file.
    """
    left = {f.op for f in refused if f.code not in (*BROKEN, *FATAL)}
    fatal = {f.op for f in refused if f.code in FATAL}
    start, cuts = 0, list[Partitions]()
    for graph in executed_graphs(model):
        cut = partition(graph, [op for i, op in enumerate(graph.ops, start) if i not in left])
        if fatal.intersection(start + i for i in cut.on_gpu):
            return []
        cuts += [cut] if cut.kernels else []
        start += len(graph.ops)
    return cuts


def reported_faults(device: Device) -> tuple[ReportedFault, ...]:
    """Return what was reported of a GPU or its driver whatever the file, the newest first."""
    return tuple(
        ReportedFault(
            title=fault.title, sentence=fault.sentence, source=fault.source, reported=fault.reported
        )
        for fault in driver_faults(device)
    )


def _sizes(graph: Graph, device: Device) -> Iterator[Finding]:
    for problem in size_problems(graph, device):
        severity: Severity = "rejected" if problem.severity == "fails" else "note"
        yield Finding(
            op=problem.op,
            kind=problem.kind,
            tensors=problem.tensors,
            severity=severity,
            code=problem.code,
            sentence=problem.sentence,
            fix=problem.fix or None,
            source=SIZES,
        )


def disagreements(report: FileReport) -> tuple[str, ...]:
    """Return a clause for each difference between the real delegate's verdict and its prediction."""
    for prediction in report.predictions:
        if find_delegate(prediction.delegate).is_judged and report.run and not report.run.crashed:
            return tuple(_differences(prediction, report.run))
    return ()


def _differences(prediction: DelegatePrediction, run: Verdict) -> Iterator[str]:
    foreseen = {logged(f.kind) for f in prediction.findings if f.severity in REFUSED}
    for rejected in run.rejected:
        # Without a reason it is a DEQUANTIZE of a float16 constant for an operator that is rejected.
        if rejected.kind not in foreseen and rejected.reason:
            yield f"the delegate rejects {rejected.kind} ({rejected.reason}), which no rule predicts"
    rejected_kinds = {rejected.kind for rejected in run.rejected}
    for kind in sorted({f.kind for f in prediction.findings if f.severity == "rejected"}):
        if logged(kind) not in rejected_kinds and not run.failure and not run.problems:
            yield f"the rules reject {kind}, which the delegate accepts"
    foreseen_wrong = any(f.severity == "wrong" for f in prediction.findings)
    if any(TOO_LARGE in problem for problem in run.problems):
        yield f"{run.adapter} has smaller textures than {prediction.device}; --device names another"
    elif run.psnr_db is not None and run.psnr_db < run.threshold_db and not foreseen_wrong:
        yield f"the numbers are only {run.psnr_db:.1f} dB from the CPU's, which no rule predicts"

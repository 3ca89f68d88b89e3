"""What rules say of one file: each operation, each size, the partitions and the memory that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msd import tflite
from msd.bundle import RunsOn, file_facts
from msd.ir import Graph, Model
from msd.ir.executed_graphs import executed_graphs
from msd.prediction.device import Device
from msd.prediction.memory import estimate
from msd.prediction.partition import Partitions, partition
from msd.prediction.registry import find_delegate
from msd.prediction.rules import predict
from msd.prediction.rules.finding import Finding, Severity
from msd.prediction.size_limits import size_problems
from msd.report.report import FileReport, Memory, Prediction, kinds_of

REFUSED = ("rejected", "unknown")
TOO_LARGE = "exceeded maximum texture size"
"""In the words of the adapter that the real delegate ran on."""

SIZES = "docs/delegates.md, sizes"


def examine(path: Path, delegates: Sequence[str], device: Device, runs_on: RunsOn = "gpu") -> FileReport:
    """Return what rules say of the file at `path` for each delegate on `device`; raises BadModelFile.

    Of a file that is for the CPU they say nothing.
    """
    model, facts = tflite.read(path), file_facts(path)
    graphs = executed_graphs(model)
    ops = [op for graph in graphs for op in graph.ops]
    judges = delegates if runs_on == "gpu" else ()
    predictions = tuple(_prediction(model, delegate, device.under(delegate)) for delegate in judges)
    return FileReport(
        str(path),
        facts.sha256,
        facts.bytes,
        len(ops),
        kinds_of(op.kind for op in ops),
        predictions,
        graphs={graph.name or f"graph {i}": len(graph.ops) for i, graph in enumerate(graphs)},
        runs_on=runs_on,
    )


def _prediction(model: Model, delegate: str, device: Device) -> Prediction:
    graph = model.main
    too_large = tuple(_sizes(graph, device))
    findings = (*predict(model, delegate), *too_large)
    refused = {f.op for f in findings if f.severity in REFUSED}
    # What does not fit fails when the delegate is set up, and then nothing runs on the GPU.
    lost = any(f.severity == "rejected" for f in too_large)
    taken = [] if lost else [op for i, op in enumerate(graph.ops) if i not in refused]
    memory = estimate(graph, device)
    return Prediction(
        delegate,
        device.name,
        tuple(sorted(findings, key=lambda f: f.op)),
        **_cut(partition(graph, taken)),
        memory=Memory(memory.weights_bytes, memory.activations_bytes, memory.timeline),
    )


def _cut(cut: Partitions) -> dict[str, Any]:
    return {
        "delegated": len(cut.on_gpu),
        "partitions": len(cut.pieces),
        "kernels": cut.kernels,
        "copies": len(cut.copies),
        "copied": sum(copy.bytes for copy in cut.copies),
    }


def _sizes(graph: Graph, device: Device) -> Iterator[Finding]:
    for problem in size_problems(graph, device):
        severity: Severity = "rejected" if problem.severity == "fails" else "note"
        fix = problem.fix or None
        yield Finding(
            problem.op, problem.kind, problem.tensors, severity, problem.code, problem.sentence, fix, SIZES
        )


def disagreements(report: FileReport) -> tuple[str, ...]:
    """Return where the real delegate's verdict differs from what was predicted for it, a clause each."""
    for prediction in report.predictions:
        if find_delegate(prediction.delegate).is_judged and report.run and not report.run["crashed"]:
            return tuple(_differences(prediction, report.run))
    return ()


def _differences(prediction: Prediction, run: dict[str, Any]) -> Iterator[str]:
    foreseen = {f.kind for f in prediction.findings if f.severity in REFUSED}
    for rejection in run["rejected"]:
        if rejection["kind"] not in foreseen:
            yield f"the delegate rejects {rejection['kind']} ({rejection['reason']}), which no rule foresees"
    said = {rejection["kind"] for rejection in run["rejected"]}
    for kind in sorted({f.kind for f in prediction.findings if f.severity == "rejected"} - said):
        if not run["failure"]:
            yield f"the rules reject {kind}, which the delegate takes"
    foreseen_wrong = any(f.severity == "wrong" for f in prediction.findings)
    found = run["psnr_db"]
    if any(TOO_LARGE in problem for problem in run["problems"]):
        yield f"{run['adapter']} has smaller textures than {prediction.device}: --device says what fits it"
    elif found is not None and found < run["threshold_db"] and not foreseen_wrong:
        yield f"the numbers are only {found:.1f} dB from the CPU's, which no rule foresees"

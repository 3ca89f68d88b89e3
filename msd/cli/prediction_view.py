"""Prints a report's predictions: the summary, then only the failures, or everything if verbose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from msd.cli.plain import escape
from msd.cli.tables import print_table, short_names
from msd.files.wording import counted
from msd.measure.report.compare import Change
from msd.measure.report.phrases import advice, in_two_files, megabytes, places, share, unjudged
from msd.measure.report.report import (
    SHOWN,
    DelegatePrediction,
    FileReport,
    Group,
    OutOfRange,
    Report,
    grouped,
)

COLORS = {
    "rejected": "red",
    "wrong": "dark_orange",
    "unknown": "magenta",
    "reported": "yellow",
    "note": "dim",
}


def print_predictions(out: Console, report: Report, verbose: bool) -> None:
    """Print the predictions for each file."""
    names = short_names(file.file for file in report.files)
    print_table(out, _summary(report, names))
    out.print()
    for file in report.files:
        for prediction in file.predictions:
            _print_findings(out, file, prediction, verbose)
        if advised := advice(file):
            out.print(f"{escape(names[file.file])}: {escape(advised)}", soft_wrap=True)
        for sentence in file.disagreements:
            out.print(f"[dark_orange]![/] {escape(file.file)}: {escape(sentence)}")
        for witness in file.witnesses if verbose else ():
            line = f"{escape(names[file.file])}: {escape(witness.name)} {escape(witness.says)}"
            out.print(line, style="dim", soft_wrap=True)
    for sentence in in_two_files(report.files):
        out.print(escape(sentence), soft_wrap=True)


def _summary(report: Report, names: Mapping[str, str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("", "file", "delegate, device", "predicted", "weights", "activations"):
        table.add_column(title, no_wrap=title != "file", overflow="fold" if title == "file" else "ellipsis")
    for file in report.files:
        if unjudged(file):
            table.add_row("·", escape(names[file.file]), "", unjudged(file), "", "")
        for p in file.predictions:
            tick = "[green]✔[/]" if file.passes(p) else "[red]✘[/]"
            where = escape(f"{p.delegate}, {p.device}")
            sizes = (megabytes(p.memory.weights), megabytes(p.memory.activations))
            table.add_row(tick, escape(names[file.file]), where, _share(file, p), *sizes)
    return table


def _share(file: FileReport, p: DelegatePrediction) -> str:
    if not file.operations:
        return share(file, p)
    words = f"{share(file, p)} on GPU"
    return f"{words}, {counted(p.partitions, 'partition')}" if p.partitions else words


def _print_findings(out: Console, file: FileReport, prediction: DelegatePrediction, verbose: bool) -> None:
    groups = [g for g in grouped(prediction.findings) if verbose or g.severity in SHOWN]
    if not groups:
        return
    out.print(
        f"[bold]{escape(file.file)}[/] [dim]{escape(prediction.delegate)}, {escape(prediction.device)}[/]"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column()
    for group in groups:
        table.add_row(*_row(group, verbose))
    print_table(out, table)
    out.print()


def _row(group: Group, verbose: bool) -> tuple[str, str, str, str]:
    color = COLORS[group.severity]
    why = escape(group.sentence)
    if group.fix:
        why += f"\n[green]cured by {escape(group.fix)}[/]"
    if verbose:
        why += f"\n[dim]{escape(group.source)}[/]"
    severity = f"  [{color}]{group.severity}[/]"
    return severity, f"[bold]{escape(group.kind)}[/]", places(group.operations), why


def print_changes(out: Console, changes: Sequence[Change], only: Sequence[str]) -> None:
    """Print the findings gained and lost since another report."""
    for change in changes:
        title = f"[bold]{escape(change.file)}[/] [dim]{escape(change.delegate)}, {escape(change.device)}[/]"
        out.print(title)
        for name in ("operations", "delegated", "weights", "activations"):
            before, after = getattr(change, name)
            if before != after:
                out.print(f"  {name}: {_amount(name, before)} → {_amount(name, after)}")
        for sign, color, findings in (("+", "red", change.gained), ("-", "green", change.lost)):
            for (severity, kind, _, sentence), count in findings.items():
                out.print(f"  [{color}]{sign} {count}x {severity} {escape(kind)}: {escape(sentence)}[/]")
        if not (change.gained or change.lost):
            out.print("  the same findings")
    for phrase in only:
        out.print(f"  {escape(phrase)}", style="dim")


def _amount(name: str, value: int) -> str:
    return megabytes(value) if name in ("weights", "activations") else str(value)


def print_audits(out: Console, report: Report) -> None:
    """Print the float16 overflows of the audited files."""
    for file in report.files:
        if file.audit is None:
            continue
        audit = file.audit
        runs = f"{counted(audit.runs, 'run')} on {audit.inputs}"
        head = f"[bold]{escape(file.file)}[/] in float16, {escape(runs)}, {counted(audit.results, 'result')}:"
        if not audit.out_of_range:
            out.print(f"{head} [green]all in range.[/]\n", soft_wrap=True)
            continue
        out.print(head, soft_wrap=True)
        for row in audit.out_of_range:
            out.print(f"  {_range_line(row)}", soft_wrap=True)
        out.print()


def _range_line(row: OutOfRange) -> str:
    reached = "not finite" if row.largest is None else f"{row.largest:.3g}"
    effect = {
        "overflow": f"[red]overflows: {reached}[/]",
        "sums": f"partial sums up to {reached}: {_sums(row.kind)}",
        "vanishing": f"[yellow]at most {reached}: loses digits[/]",
    }[row.what]
    fix = f" [green]cured by {escape(row.fix)}[/]" if row.fix else ""
    return f"{escape(row.kind)} #{row.op} {escape(row.tensor)} {effect}{fix}"


def _sums(kind: str) -> str:
    """Return whether sums beyond float16 do harm, for this kind of operation.

    Both delegates add a MEAN's and a SUM's values in float32 (tasks/reduce.cc).
    """
    if kind in ("MEAN", "SUM"):
        return "[dim]right, as the delegates add them in float32[/]"
    return "[yellow]wrong where a GPU adds them in float16[/]"

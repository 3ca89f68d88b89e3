"""Prints the real delegate's verdicts: the summary, then the objections, or everything if verbose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from msd.cli.plain import escape
from msd.cli.tables import print_table, short_names
from msd.files.wording import counted
from msd.measure.judging import Rejection, Verdict
from msd.measure.judging.browser import NOTES, BrowserVerdict
from msd.measure.report.compare import files_of_both
from msd.measure.report.report import Report
from msd.run.runners.runner import VulkanAdapter


def print_verdicts(
    out: Console, adapter: VulkanAdapter, verdicts: list[Verdict], setup: bool, verbose: bool
) -> None:
    """Print the adapter that the delegate ran on, and its verdict on each file."""
    asked = ", ".join(dict.fromkeys(v.litert for v in verdicts if v.litert)) or version("ai-edge-litert")
    title = f"LiteRT {asked} GPU delegate on [bold]{escape(adapter.name)}[/]"
    conditions = ["in software" if adapter.software else adapter.type, *{v.precision for v in verdicts}]
    out.print(f"{title}, {escape(', '.join(conditions))}")
    for reason in adapter.passed_over:
        out.print(f"Passed over: {escape(reason)}")
    if setup or verbose:
        out.print(f"Driver: {escape(adapter.origin)}")
    if setup:
        out.print("[green]The delegate works here.[/]")
    if verdicts:
        _print_verdicts(out, verdicts, verbose)


def print_undone(out: Console, report: Report, undone: Mapping[str, Sequence[str]]) -> None:
    """Print of a stopped report which files for the GPU lack what: their labels, by the participle of it."""
    every = sum(file.runs_on == "gpu" for file in report.files)
    for participle, labels in undone.items():
        if labels:
            names = escape(", ".join(short_names(labels).values()))
            share = f"{len(labels)} of {counted(every, 'file')}"
            out.print(f"[red]{share} not {participle}: {names}[/]", soft_wrap=True)


def print_runs_compared(out: Console, before: Report, after: Report) -> None:
    """Print of each file that both reports have what the delegate made of it in each of them."""
    for old, file in files_of_both(before, after):
        if old.run is not None and file.run is not None and before.adapter and after.adapter:
            runs = (before.adapter.litert, old.run), (after.adapter.litert, file.run)
            told = [f"LiteRT {version} {_run_summary(run)}" for version, run in runs]
            out.print(f"[bold]{escape(file.file)}[/]: {escape(' → '.join(told))}", soft_wrap=True)


def _run_summary(run: Verdict) -> str:
    words = f"{run.delegated} of {run.operations} on GPU"
    if run.failure:
        return f"{words} ({run.failure})"
    return words if run.psnr_db is None else f"{words}, {run.psnr_db:.1f} dB"


def print_browser_verdicts(
    out: Console, measured: BrowserVerdict, verdicts: list[Verdict], verbose: bool
) -> None:
    """Print the device that a browser measured on, and what came of each file."""
    out.print(f"[bold]{escape(measured.adapter)}[/], {measured.precision}: {NOTES[measured.runtime]}")
    out.print(f"Browser: {escape(measured.browser)}")
    _print_verdicts(out, verdicts, verbose)


def _print_verdicts(out: Console, verdicts: list[Verdict], verbose: bool) -> None:
    print_table(out, _table(verdicts))
    out.print()
    for verdict in verdicts:
        if verbose or not verdict.ok:
            _print_details(out, verdict, verbose)
    for note in sorted({verdict.precision_note for verdict in verdicts if verdict.precision_note}):
        out.print(f"Note: {escape(note)}.")
    color = "green" if all(verdict.ok for verdict in verdicts) else "red"
    out.print(f"[{color}]{conclusion(verdicts)}[/]")


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """Return how many files are fully delegated, and of how many compared ones the results match."""
    many, passing = len(verdicts), sum(verdict.ok for verdict in verdicts)
    whole = sum(verdict.fully_delegated for verdict in verdicts)
    compared = sum(bool(verdict.outputs) for verdict in verdicts)
    verb = "is" if 1 in (whole, many) else "are"
    share = f"{whole} of {counted(many, 'file')} {verb} fully delegated"
    if passing == many:
        return f"{share}, and the results match the CPU's."
    if not compared:
        return f"{share}; no results could be compared with the CPU's."
    if not whole:
        return f"{share}."
    uncompared = f"; those of {many - compared} could not be compared" if compared < many else ""
    right = f"the results of {passing} match the CPU's" if passing else "no results match the CPU's"
    return f"{share}; {right}{uncompared}."


def _table(verdicts: list[Verdict]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("", "file", "verdict", "PSNR to CPU"):
        table.add_column(title, no_wrap=title in ("", "verdict"))
    names = short_names(verdict.file for verdict in verdicts)
    for verdict in verdicts:
        mark = "[green]✔[/]" if verdict.ok else "[red]✘[/]"
        number = _decibel(verdict.psnr) if verdict.outputs else "–"
        table.add_row(mark, escape(names[verdict.file]), _summary(verdict), number)
    return table


def _decibel(psnr: float) -> str:
    if math.isinf(psnr):
        return "∞ dB" if psnr > 0 else "−∞ dB"
    return "undefined" if math.isnan(psnr) else f"{psnr:.1f} dB"


def _summary(verdict: Verdict) -> str:
    if verdict.crashed:
        return f"lost: {counted(verdict.operations, 'operation')} undecided"
    words = f"{verdict.delegated} of {counted(verdict.operations, 'operation')} on GPU"
    if not verdict.partitions:
        return words
    return f"{words}, {counted(verdict.partitions, 'partition')}"


def _print_details(out: Console, verdict: Verdict, verbose: bool) -> None:
    """Print the objections to a file; with `verbose`, everything else too."""
    out.print(f"[bold]{escape(verdict.file)}[/]")
    for objection in verdict.objections:
        out.print(f"  [red]✘[/] {escape(objection)}")
    if verdict.rejected:
        out.print("  rejected, in the delegate's own words (operations they cut off stay on the CPU too):")
        print_table(out, _rejections(verdict))
    for note in verdict.notes:
        if note != verdict.precision_note:  # it is printed once, for all files
            out.print(f"  note: {escape(note)}", style="dim")
    if verbose:
        _print_everything(out, verdict)
    out.print()


def _rejections(verdict: Verdict) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    for rejection in verdict.rejected:
        words = f"{escape(rejection.reason)} {escape(_place(rejection))}".strip()
        table.add_row(f"    {escape(rejection.kind)}", _count(rejection), words)
    return table


def _count(rejection: Rejection) -> str:
    """Return the number of rejected operations, as far as it is known."""
    if not rejection.of:
        return "created at run time"
    return f"{len(rejection.operations) if rejection.exact else 'some'} of {rejection.of}"


def _place(rejection: Rejection) -> str:
    """Return the first rejected operation and the tensor that the delegate named."""
    if not rejection.exact:
        return ""
    tensor = f", tensor {rejection.tensors[0]}" if rejection.tensors else ""
    first = "first " if len(rejection.operations) > 1 else ""
    return f"({first}#{rejection.operations[0]}{tensor})"


def _print_everything(out: Console, verdict: Verdict) -> None:
    for distance in verdict.outputs:
        shown = f"  {escape(distance.output)}: {_decibel(distance.psnr)} from the CPU's"
        if distance.max_difference is not None:
            shown += f", max difference {distance.max_difference:.2g}"
        if distance.max_reference is not None:
            shown += f", values up to {distance.max_reference:.3g}"
        out.print(shown)
    if verdict.compile_seconds is not None and verdict.run_seconds is not None:
        out.print(f"  compiled in {verdict.compile_seconds:.2f} s, run in {verdict.run_seconds:.2f} s")
    out.print("  native log:", style="dim")
    for line in verdict.log:
        out.print(f"    {escape(line)}", style="dim", soft_wrap=True)

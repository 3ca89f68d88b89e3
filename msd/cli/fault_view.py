"""Prints what others reported of phones: beside operations, and of the GPU asked for."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding

from msd.cli.plain import escape
from msd.cli.tables import short_names
from msd.measure.report.phrases import places
from msd.measure.report.report import Report, grouped


def print_reported(out: Console, report: Report) -> None:
    """Print the faults that were reported of operations of the files, a line for each kind."""
    names = short_names(file.file for file in report.files)
    for file in report.files:
        for prediction in file.predictions:
            for group in grouped(f for f in prediction.findings if f.severity == "reported"):
                where = f"{names[file.file]}, {prediction.device}: {group.kind}"
                line = f"{where} {places(group.operations)}: {group.sentence}"
                out.print(f"[yellow]reported[/] {escape(line)}")


def print_driver_faults(out: Console, report: Report) -> None:
    """Print what was reported of the GPU asked for or of its driver, whatever the file."""
    if report.reported:
        out.print("Reported of this GPU, not measured by msd:", style="dim")
    for fault in report.reported:
        out.print(Padding(f"[bold]{escape(fault.title)}:[/] {escape(fault.sentence)}", (0, 0, 0, 2)))
    if report.reported:
        out.print()

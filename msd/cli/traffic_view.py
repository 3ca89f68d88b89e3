"""Prints what a run reads, writes and computes, and the least time for it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from msd.cli.plain import escape
from msd.cli.tables import print_table
from msd.measure.report.phrases import COUNTED, READ_AND_WRITTEN, least, traffic_phrases
from msd.measure.report.report import Report


def print_traffic(out: Console, report: Report) -> None:
    """Print the traffic of each prediction and its least time on the device asked for.

    There is a row for each file and delegate, so that the table is no wider for many. Prints nothing where no
    traffic was counted.
    """
    every = [(file, p, p.traffic) for file in report.files for p in file.predictions if p.traffic]
    if not every:
        return
    out.print(READ_AND_WRITTEN, style="dim")
    asked = every[0][2].least[0].device
    sums = _table("", *COUNTED, f"least time on {escape(asked)}")
    for file, p, traffic in every:
        sums.add_row(_head(file.file, p.delegate), *traffic_phrases(traffic), least(traffic.least[0]))
    print_table(out, sums)
    out.print()


def _head(file: str, delegate: str) -> str:
    return escape(f"{file.rpartition('/')[2]}, {delegate}")


def _table(first: str, *titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold")
    for title in titles:
        table.add_column(title)
    return table

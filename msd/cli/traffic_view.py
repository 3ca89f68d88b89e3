"""Prints what a run reads, writes and computes, and the least time of each device for it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from msd.cli.plain import escape
from msd.measure.report.phrases import COUNTED, READ_AND_WRITTEN, counted, least
from msd.measure.report.report import Report


def print_traffic(out: Console, report: Report) -> None:
    """Print the traffic of each prediction, then a table of devices; nothing where none was counted."""
    every = [(file, p, p.traffic) for file in report.files for p in file.predictions if p.traffic]
    if not every:
        return
    out.print(READ_AND_WRITTEN, style="dim", soft_wrap=True)
    heads = [escape(f"{file.file.rpartition('/')[2]}, {p.delegate}") for file, p, _ in every]
    sums = _table("", *COUNTED)
    for head, (_, _, traffic) in zip(heads, every, strict=True):
        sums.add_row(head, *counted(traffic))
    out.print(sums)
    out.print()
    times = _table("least time on", *heads)
    for row in zip(*(traffic.least for _, _, traffic in every), strict=True):
        times.add_row(escape(row[0].device), *map(least, row))
    out.print(times)
    out.print()


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title)
    return table

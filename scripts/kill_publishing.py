"""Kill what publishes files at each of its file-system calls; print the table of docs/reliability.md.

    PYTHONPATH=. python scripts/kill_publishing.py

It takes minutes, and ends with an AssertionError where a kill leaves neither the old output nor the new one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from tests.kills import survive
from tests.publications import CASES


@click.command()
def main() -> None:
    """Print a line for each case: the kills, and what counted after them."""
    click.echo("| what is written | kills | then the old counts | then the new counts | neither |")
    click.echo("|---|---|---|---|---|")
    total = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            counts = survive(case, Path(folder) / "kills")
        total += counts.kills
        click.echo(f"| {case.name} | {counts.kills} | {counts.old} | {counts.new} | 0 |")
    click.echo(f"\n{total} kills")


if __name__ == "__main__":
    main()

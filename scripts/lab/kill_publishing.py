"""End what publishes files at each of its file-system calls; print a table; docs/reliability.md has its sum.

    PYTHONPATH=. python scripts/lab/kill_publishing.py

Each case ends by a kill, and then by a power cut, at every call (tests/kills.py). It takes a minute, and ends
with an AssertionError where neither the old output is left nor the new one.
"""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path

import click

from tests.kills import survive
from tests.publications import CASES


@click.command()
def main() -> None:
    """Print a line for each case: the kills, the power cuts, and what counted after them."""
    click.echo(
        "| what is written | ended by | at calls | then the old counts | then the new counts | neither |"
    )
    click.echo("|---|---|---|---|---|---|")
    total = 0
    for case, power in product(CASES, (False, True)):
        with tempfile.TemporaryDirectory() as folder:
            counts = survive(case, Path(folder) / "kills", power)
        total += counts.kills
        end = "power cut" if power else "kill"
        click.echo(f"| {case.name} | {end} | {counts.kills} | {counts.old} | {counts.new} | 0 |")
    click.echo(f"\n{total} kills and power cuts")


if __name__ == "__main__":
    main()

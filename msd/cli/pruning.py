"""The pruning report and table of `msd-convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from msd.cli.command import console
from msd.cli.plain import escape, say
from msd.cli.tables import print_table

if TYPE_CHECKING:
    from msd.bundle import Manifest


def save_report(manifest: Manifest, path: Path, force: bool) -> None:
    """Write the pruning of each component as JSON; an empty object where nothing was pruned.

    Raises OutputUnwritable, and OutputExists unless `force`.
    """
    from msd.files.atomic import atomic_write
    from msd.files.schema import to_json

    report = {name: to_json(ledger.pruning) for name, ledger in manifest.ledger.items() if ledger.pruning}
    if not report:
        say(f"warning: {path} is an empty object: nothing was to be pruned", err=True)
    with atomic_write(path, force) as temporary:
        temporary.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def print_pruning(manifest: Manifest) -> None:
    """Print a table of the pruned units and their errors."""
    from rich.table import Table

    for name, ledger in manifest.ledger.items():
        pruning = ledger.pruning
        if not (pruning and pruning.units):
            continue
        has_refit = any(unit.output_error is not None for unit in pruning.units)
        title = f"{name}: pruned by {pruning.criterion}"
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title=title)
        table.add_column("unit", overflow="fold")
        for column in ("kept", "parameters", "error"):
            table.add_column(column, no_wrap=True)
        if has_refit:
            table.add_column("output")
            table.add_column("refitted")
        for unit in pruning.units:
            errors = [_decibels(unit.output_error), _decibels(unit.refitted_error)] if has_refit else []
            share = f"{unit.kept} of {unit.width}" + (" by groups" if unit.whole_groups else "")
            table.add_row(escape(unit.unit), share, f"-{unit.parameters:,}", f"{unit.error:.1%}", *errors)
        removed, parameters = pruning.removed / 1e6, pruning.parameters / 1e6
        table.caption = f"{removed:.1f} M of {parameters:.1f} M parameters pruned, {removed / parameters:.1%}"
        print_table(console(0), table)


def _decibels(error: float | None) -> str:
    """Return an error's energy, relative to the result, in dB."""
    from math import log10

    if error is None:
        return ""
    return f"{-10 * log10(error):.1f} dB" if error else "exact"

"""Pruning in `msd-convert`: its options, its report, its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msd.bundle import Manifest
    from msd.encoding.recipe import Recipe


def pruning(budget: str | None, calibration: Path | None, no_refit: bool, recipe: Recipe) -> dict[str, Any]:
    """Return the settings that `--prune`, `--calibration` and `--no-refit` ask for, beyond the recipe's.

    Raises BadConfig for what is no budget or no [prune] table, and for a calibration of nothing.
    """
    from dataclasses import replace

    from msd.calibration.drawing import Calibration
    from msd.errors import BadConfig
    from msd.pruning.settings import Pruning, parse_budget, parse_pruning

    wanted = parse_pruning(recipe.prune) if recipe.prune is not None else None
    if budget:
        wanted = replace(wanted or Pruning(), budget=parse_budget(budget))
    if calibration and not wanted:
        raise BadConfig("a calibration is for pruning: give --prune, or a recipe with a table [prune]")
    if no_refit and wanted:
        wanted = replace(wanted, refit=False)
    return {"pruning": wanted, "calibration": Calibration(calibration) if calibration else None}


def save_report(manifest: Manifest, path: Path) -> None:
    """Write what was pruned, by component, as JSON; nothing was: an empty object."""
    from msd.files.atomic import atomic_write

    done = {name: row["pruning"] for name, row in manifest.ledger.items() if "pruning" in row}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(done, indent=2) + "\n", "utf-8")


def say_pruning(manifest: Manifest) -> None:
    """Print a table of the pruned units and their errors."""
    from rich.console import Console
    from rich.table import Table

    for name, row in manifest.ledger.items():
        if not (done := row.get("pruning")):
            continue
        refitted = any(unit["output_error"] is not None for unit in done["units"])
        title = f"{name}: pruned by {done['criterion']}"
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title=title)
        table.add_column("unit", overflow="fold")
        for column in ("kept", "parameters", "error"):
            table.add_column(column, no_wrap=True)
        if refitted:
            table.add_column("output")
            table.add_column("refitted")
        for unit in done["units"]:
            errors = [_decibels(unit["output_error"]), _decibels(unit["refitted_error"])] if refitted else []
            kept = f"{unit['kept']} of {unit['width']}" + (" by groups" if unit["whole_groups"] else "")
            table.add_row(unit["unit"], kept, f"-{unit['parameters']:,}", f"{unit['error']:.1%}", *errors)
        removed, parameters = done["removed"] / 1e6, done["parameters"] / 1e6
        table.caption = f"{removed:.1f} M of {parameters:.1f} M parameters pruned, {removed / parameters:.1%}"
        Console().print(table)


def _decibels(error: float | None) -> str:
    """Return an error's energy, relative to what is computed, in dB below it."""
    from math import log10

    if error is None:
        return ""
    return f"{-10 * log10(error):.1f} dB" if error else "exact"

"""Measure the structure of the code, of one checkout or of two side by side.

    PYTHONPATH=. python scripts/lab/measure_structure.py BEFORE . --suite-minutes 14.1 --suite-minutes 11.5 \\
        -o docs/results/structure.json

A room is a package directly below msd (or a module, where there is no package), or graph_rewrites. The rooms
of a conversion are those whose functions run while the demo checkpoint is converted, in the order of each
function's first call; see scripts/lab/conversion_path.py. A return goes to a room that was left before. The
file also has how often a conversion goes from one room to another, and the lines of each room.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from scripts.figures import save_figures
from scripts.lab import conversion_path
from scripts.source_modules import in_folder, read_modules
from scripts.structure import (
    CODE,
    component_literals,
    duplicate_classes,
    duplicated_options,
    file_lengths,
    function_lengths,
    package_of,
    packages_in_cycles,
    positional_records,
    root_modules,
    visits,
)

Figures = dict[str, int | float | None]
CHECKOUT = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("roots", type=CHECKOUT, nargs=-1, required=True)
@click.option("--suite-minutes", type=float, multiple=True, help="How long the tests took, for each root.")
@click.option("--rooms/--no-rooms", default=True, help="Convert the demo checkpoint: a minute for each root.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the figures as JSON here.")
def main(roots: tuple[Path, ...], suite_minutes: tuple[float, ...], rooms: bool, output: Path | None) -> None:
    """Print a table with a column for each checkout at ROOTS: one, or the one before and the one after."""
    if len(roots) > 2:
        raise click.UsageError("Give one checkout, or two: before and after.")
    names = ("before", "after") if len(roots) == 2 else ("now",)
    minutes = (*suite_minutes, None, None)
    columns = {
        name: figures(root, rooms) | {"minutes of the suite": taken}
        for name, root, taken in zip(names, roots, minutes, strict=False)
    }
    click.echo(table(columns))
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        detailed = {
            name: column | details(root, rooms)
            for (name, column), root in zip(columns.items(), roots, strict=True)
        }
        save_figures(output, {"command": command(roots), **detailed}, "msd")


def command(roots: tuple[Path, ...]) -> str:
    """Return the command that repeats this, without the folders of this machine."""
    return f"python scripts/lab/measure_structure.py {'BEFORE .' if len(roots) == 2 else '.'}"


def figures(root: Path, rooms: bool) -> Figures:
    """Return the figures of the checkout at `root`."""
    modules = read_modules(root, CODE)
    literals = component_literals(modules)
    return {
        "modules in msd/ itself": len(root_modules(modules)),
        "packages in cycles": len(packages_in_cycles(modules)),
        **(conversion_rooms(root) if rooms else {}),
        "literals that name a component": len(literals),
        "modules with such a literal": len({found.partition(" ")[0] for found in literals}),
        "lines of the longest function": max(each.lines for each in function_lengths(modules)),
        "lines of the longest file": max(each.lines for each in file_lengths(modules)),
        "options spelled out in more than one command": len(duplicated_options(modules)),
        "class names defined more than once": len(duplicate_classes(modules)),
        "records built with more than 4 positional arguments": len(positional_records(modules)),
        "words in README": len((root / "README.md").read_text("utf-8").split()),
    }


def details(root: Path, rooms: bool) -> dict[str, Any]:
    """Return the lines of each room, and how often a conversion goes from one to another, most first."""
    modules = read_modules(root, CODE)
    lines: Counter[str] = Counter()
    for each in file_lengths(modules):
        lines[package_of(each.name)] += each.lines
    found: dict[str, Any] = {"lines by room": dict(lines.most_common())}
    if rooms:
        stays, _ = visits(rooms_of_conversion(root))
        found["ways between rooms"] = {
            f"{before} to {after}": count for (before, after), count in Counter(pairwise(stays)).most_common()
        }
    return found


def rooms_of_conversion(root: Path) -> list[str]:
    """Return the room of each function that runs first, in that order, without the command line."""
    return [package_of(module) for module in converted_through(root) if not in_folder(module, "msd.cli")]


def conversion_rooms(root: Path) -> Figures:
    """Return the rooms that a checkpoint passes through while the code at `root` converts it."""
    rooms = rooms_of_conversion(root)
    stays, returns = visits(rooms)
    return {
        "rooms a checkpoint passes": len(set(rooms)),
        "stays in them": len(stays),
        "returns to a room left before": returns,
    }


@cache
def converted_through(root: Path) -> list[str]:
    """Return the modules that the demo checkpoint passes in a conversion by the code at `root`."""
    with tempfile.TemporaryDirectory() as scratch:
        env = os.environ | {"PYTHONPATH": str(root.resolve()), "MSD_CACHE": f"{scratch}/cache"}
        child = [sys.executable, conversion_path.__file__, f"{scratch}/out"]
        done = subprocess.run(child, cwd=scratch, env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def table(columns: dict[str, Figures]) -> str:
    """Return the figures as text, a line for each, a column for each checkout."""
    labels = list(next(iter(columns.values())))
    width = max(map(len, labels))
    lines = [f"{'':{width}}" + "".join(f"{name:>9}" for name in columns)]
    for label in labels:
        cells = (column[label] for column in columns.values())
        lines.append(f"{label:{width}}" + "".join(f"{'–' if c is None else c:>9}" for c in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()

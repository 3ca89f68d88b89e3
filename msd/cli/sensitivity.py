"""`msd sensitivity`: the error of each block in each storage format, and a recipe that mixes them."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from msd.cli import completion, options
from msd.cli.blocks import WIDTH, decibels
from msd.cli.command import CHECK_FAILED, Command, command_line, console
from msd.cli.options import FILE
from msd.cli.plain import escape, say, say_json
from msd.cli.progress import component_progress
from msd.cli.stopped import shown_if_stopped
from msd.cli.tables import print_table
from msd.files.atomic import atomic_write
from msd.files.scratch import scratch_folder
from msd.files.targets import require_writable
from msd.files.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

    from msd.compress.calibration.generated_inputs import Calibration
    from msd.compress.encoding.recipe import Recipe
    from msd.conversion.convert import Settings
    from msd.measure.blockwise import target
    from msd.measure.blockwise.sensitivity import Errors, OnProgress, Sensitivity, Study

ATTEMPTS = 4
"""The number of recipes to try until one reaches the target."""

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}

EXAMPLE = """\b
Examples:
  msd sensitivity sd21 --candidate float16 --candidate gpu-w8 --target-db 40 -o mixed.toml
  msd sensitivity --candidate gpu-w8 --candidate gpu-w4 --target-size 20% -o mixed.toml
  msd convert sd21 -o out --recipe mixed.toml
"""

Size = tuple[float, bool]
"""A number of bytes, or, if the second is true, a fraction of the reference's."""


def _size(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Size | None:
    """Read "600MB" or "60%"."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*(%|B|kB|MB|GB)", value)
    if not match or not float(match[1]):
        raise click.BadParameter(f"{value} is not a size; write 600MB or 60%")
    if match[2] == "%":
        return float(match[1]) / 100, True
    return float(match[1]) * UNITS[match[2]], False


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("source", required=False, type=options.NamedPath(path_type=Path))
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    required=True,
    metavar="RECIPE[:ALGORITHM]",
    shell_complete=completion.completes(completion.recipes),
    help="A recipe that stores all weights alike, and may prune, maybe with another algorithm, as in"
    " gpu-w4:gptq; may be repeated. float32 is always one.",
)
@click.option(
    "--target-size",
    callback=_size,
    metavar="SIZE",
    help="Total size of the files, at most: 600MB, or 60% of float32.",
)
@click.option(
    "--target-db",
    type=options.Number(-1000, 1000),
    metavar="DB",
    help="SNR of each network's result, at least.",
)
@click.option("-o", "--output", type=FILE, required=True, help="The recipe to write, a .toml file.")
@options.components()
@options.calibration
@options.json_result()
@options.force("Replace an existing recipe.")
def sensitivity(
    source: Path | None,
    candidates: tuple[str, ...],
    target_size: Size | None,
    target_db: float | None,
    output: Path,
    components: tuple[str, ...],
    as_json: bool,
    force: bool,
    calibration: Calibration,
) -> None:
    """Measure the error of each block of SOURCE with each candidate, and write a recipe for a target.

    Then the checkpoint is converted with that recipe, and the result is measured. Without SOURCE, this is the
    demo checkpoint. msd docs blockwise explains the method.
    """
    if (target_size is None) == (target_db is None):
        raise click.UsageError("give one of --target-size and --target-db")
    require_writable(output, force)
    from msd.files.schema import dump
    from msd.models.demo import CHECKPOINT

    with scratch_folder() as folder, scratch_folder() as written:
        with (
            shown_if_stopped(_print_expected) as on_chosen,
            shown_if_stopped(_print_errors) as on_stopped,
            component_progress() as on_progress,
        ):
            result, missed = _measure_and_write(
                source or CHECKPOINT,
                _settings(components),
                candidates,
                (target_size, target_db),
                calibration,
                written / output.name,
                folder,
                on_progress,
                on_stopped,
                on_chosen,
            )
        say_json(dump(result)) if as_json else _print_result(result)
        with atomic_write(output, force) as temporary:
            shutil.copyfile(written / output.name, temporary)
    if not as_json:
        say(f"{output}: a recipe for {result.target}")
    if missed:
        say(f"{missed}; the recipe is the last attempt's", err=True)
        raise SystemExit(CHECK_FAILED)


def _measure_and_write(
    source: Path,
    settings: Settings,
    candidates: tuple[str, ...],
    goal: tuple[Size | None, float | None],
    calibration: Calibration,
    output: Path,
    folder: Path,
    on_progress: OnProgress,
    on_stopped: Callable[[Errors], None],
    on_chosen: Callable[[Sensitivity], None],
) -> tuple[Sensitivity, str]:
    """Measure the blocks, choose formats, write the recipe, and measure its result.

    Returns that, and a sentence where it misses the target.

    `on_stopped` gets what was measured before something ended that, `on_chosen` all blocks: first without a
    choice, then with each choice, before its result is measured.
    """
    from msd.compress.encoding.recipe import read_recipe
    from msd.measure.blockwise.candidates import find_candidate
    from msd.measure.blockwise.mixed_recipe import mixed_recipe
    from msd.measure.blockwise.sensitivity import (
        chosen_formats,
        convert_and_measure,
        require_reachable,
        study,
    )

    def on_sizes(least: int, most: int) -> None:
        if goal[0]:
            require_reachable(_limit(goal[0], most), least, most)

    recipes = [find_candidate(name) for name in candidates]
    measured = study(source, settings, recipes, calibration, folder, on_progress, on_stopped, on_sizes)
    calibration = calibration.completed(measured.reference.manifest.images)
    notes = _notes(calibration, recipes)
    aim = _target(measured, *goal)
    result = _before_conversion(measured, str(calibration), str(aim))
    on_chosen(result)
    for attempt in range(1, ATTEMPTS + 1):
        on_progress("mixed", "converting and running", attempt - 1, ATTEMPTS)
        choice = aim.choice(measured)
        expected = measured.outcomes(choice)
        result = replace(
            result, chosen=chosen_formats(choice, measured.candidates), expected=expected, found={}
        )
        on_chosen(result)
        text = mixed_recipe(choice, measured.candidates, expected, str(aim), notes)
        output.write_text(text, "utf-8")
        found = convert_and_measure(measured, source, settings, read_recipe(output), folder / "mixed")
        result = replace(result, found=found)
        if not (closer := aim.closer(measured, expected, found)):
            break
        aim = closer
    on_progress("mixed", "converted and run", attempt, attempt)
    return result, aim.missed(result.found)


def _notes(calibration: Calibration, recipes: Sequence[Recipe]) -> list[str]:
    """Return the comments at the top of the recipe: how it was made, and what a conversion with it needs."""
    from msd.measure.blockwise.candidates import pruning_of

    notes = [f"Made by: {command_line()}", f"Calibrated with {calibration}."]
    if any(p and p.needs_calibration for p in map(pruning_of, recipes)):
        notes.append(f"Convert with --calibration {calibration.given}: what is pruned depends on it.")
    if any(recipe.needs_calibration for recipe in recipes):
        notes.append(f"Convert with --calibration {calibration.given}: gptq rounds on it.")
    return notes


def _before_conversion(measured: Study, calibration: str, aim: str) -> Sensitivity:
    """Return the result of measuring all blocks, of which none has a format yet."""
    from msd.measure.blockwise.sensitivity import Sensitivity

    chosen: dict[str, dict[str, str]] = {name: {} for name in measured.outside}
    for block in measured.blocks:
        chosen[block.component][block.block] = ""
    return Sensitivity(
        command=command_line(),
        machine=f"{platform.machine()}, {platform.system()}, {counted(os.cpu_count() or 1, 'core')}",
        versions=measured.reference.manifest.versions,
        calibration=calibration,
        target=aim,
        blocks=tuple(measured.blocks),
        chosen=chosen,
        whole=measured.whole,
        expected={},
        found={},
    )


def _target(measured: Study, size: Size | None, snr_db: float | None) -> target.SizeTarget | target.Snr:
    """Return the target: bytes, maybe a share of the reference's, or dB for each component."""
    from msd.measure.blockwise import target

    if size is None:
        return target.Snr(snr_db or 0.0, dict.fromkeys(measured.outside, snr_db or 0.0))
    size_limit = _limit(size, measured.most)
    return target.SizeTarget(size_limit, measured.most, size_limit)


def _limit(size: Size, whole: int) -> int:
    """Return a size in bytes; the reference's files have `whole`."""
    return round(size[0] * whole if size[1] else size[0])


def _settings(components: tuple[str, ...]) -> Settings:
    import graph_rewrites
    from msd.conversion.convert import Settings

    return Settings(graph_rewrites.load(), components=components)


def _print_result(result: Sensitivity) -> None:
    """Print each network's blocks, and what came of the whole."""
    _print_blocks(console(WIDTH), result)
    for component, outcome in result.found.items():
        expected = result.expected[component]
        say(
            f"{component}: {outcome.bytes / 1e6:.2f} MB (expected {expected.bytes / 1e6:.2f}), "
            f"{decibels(outcome.snr_db)} dB (expected {decibels(expected.snr_db)})"
        )


def _print_expected(result: Sensitivity) -> None:
    """Print on stderr each network's blocks, and what is expected of the whole."""
    _print_blocks(console(WIDTH, stderr=True), result)
    for component, expected in result.expected.items():
        size = f"{expected.bytes / 1e6:.2f} MB"
        say(f"{component}: {size} and {decibels(expected.snr_db)} dB are expected", err=True)


def _print_errors(errors: Errors) -> None:
    """Print on stderr the blocks that were measured, with the error of the result in each format."""
    out = console(WIDTH, stderr=True)
    for component, parts in errors.items():
        table = _table(component, parts)
        found = {name: {b.name: b.final_snr_db for b in part.blocks} for name, part in parts.items()}
        for block in dict.fromkeys(block for rows in found.values() for block in rows):
            cells = (decibels(rows[block]) if block in rows else "" for rows in found.values())
            table.add_row(escape(block), *cells)
        print_table(out, table)


def _print_blocks(out: Console, result: Sensitivity) -> None:
    """Print each network's blocks with the error of the result in each format, and the chosen format."""
    for component, chosen in result.chosen.items():
        table = _table(component, result.whole)
        table.add_column("chosen")
        for block in (b for b in result.blocks if b.component == component):
            costs = [_cost(form.noise) for form in block.forms[:-1]]
            table.add_row(escape(block.block), *costs, chosen[block.block])
        table.add_row("all", *(decibels(w[component].snr_db) for w in result.whole.values()), "")
        print_table(out, table)


def _table(component: str, candidates: Iterable[str]) -> Table:
    from rich.table import Table

    title = f"{component}: SNR of the result in dB, with one block stored so"
    table = Table(title=title, title_justify="left")
    table.add_column("block", no_wrap=True)
    for name in candidates:
        table.add_column(name, justify="right")
    return table


def _cost(noise: float) -> str:
    from msd.measure.blockwise.sensitivity import ratio

    return decibels(ratio(noise))

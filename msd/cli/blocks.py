"""`msd blocks`: the error of each block of a compressed network, alone and in the network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli.command import Command, refuse_existing
from msd.families import component_names

if TYPE_CHECKING:
    from msd.blockwise.compare import OnProgress
    from msd.blockwise.result import BlockReport, ComponentErrors

CHECK_FAILED = 3
WIDTH = 120
"""Columns to print where there is no terminal to ask."""

BUNDLE = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)

EXAMPLE = """\b
Examples:
  msd convert -o float --recipe float32
  msd convert -o small
  msd blocks small --reference float --final --plot blocks.svg
  msd blocks small --reference float --component unet --calibration prompts.txt --fail-below 35
"""


def calibration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where inputs come from."""
    for option in (
        click.option(
            "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the first image."
        ),
        click.option(
            "--guidance", type=click.FloatRange(0), default=7.5, show_default=True, help="1 or less: none."
        ),
        click.option(
            "--kept-steps",
            "kept",
            type=click.IntRange(1),
            default=4,
            show_default=True,
            help="Steps to measure on, spaced evenly.",
        ),
        click.option(
            "--steps",
            type=click.IntRange(1),
            default=20,
            show_default=True,
            help="Denoising steps of an image.",
        ),
        click.option(
            "--calibration",
            "given",
            type=click.Path(path_type=Path),
            metavar="PROMPTS.txt|FOLDER",
            help="Prompts, one per line, or a folder of .npz inputs.  [default: the demo's captions]",
        ),
    ):
        command = option(command)
    return command


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("bundle", type=BUNDLE)
@click.option("--reference", type=BUNDLE, required=True, help="The same checkpoint, converted with float32.")
@click.option(
    "--component",
    "components",
    type=click.Choice(component_names()),
    multiple=True,
    help="Measure only this one; may be repeated.",
)
@calibration_options
@click.option(
    "--final", is_flag=True, help="Measure each block's share of the network's error: one more run per block."
)
@click.option("--plot", type=FILE, metavar="FILE.svg|FILE.png", help="Plot the errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON on stdout.")
@click.option(
    "--fail-below", type=float, metavar="DB", help="End with exit code 3 if a median is below this SNR."
)
@click.option("--force", is_flag=True, help="Replace an existing plot.")
def blocks(
    bundle: Path,
    reference: Path,
    components: tuple[str, ...],
    final: bool,
    plot: Path | None,
    as_json: bool,
    fail_below: float | None,
    force: bool,
    **calibration: Any,
) -> None:
    """Compare each block of BUNDLE, alone, with a reference's, on the same inputs.

    The inputs come from real denoising runs. docs/blockwise.md explains the measurement.
    """
    from msd.blockwise.compare import compare
    from msd.bundle import open_bundle
    from msd.calibration.drawing import Calibration
    from msd.files.schema import dump

    if plot:
        from msd.blockwise.plot import check_plot, save_plot

        check_plot(plot)
        refuse_existing(plot, force)
    with progress() as on_progress:
        settings, opened = Calibration(**calibration), open_bundle(bundle)
        chosen = components or opened.family.required
        report = compare(
            open_bundle(reference),
            opened,
            chosen,
            settings,
            final,
            on_progress,
            typed(),
        )
    if plot:
        save_plot(report, plot)
    click.echo(dump(report), nl=False) if as_json else _say(report)
    low = {name: p.median_db for name, p in report.components.items() if p.median_db < (fail_below or -1e9)}
    for name, median in low.items():
        click.echo(f"{name}: the median of {median:.1f} dB is below {fail_below:g} dB", err=True)
    if low:
        raise SystemExit(CHECK_FAILED)


def typed() -> str:
    """Return the command that was typed."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Show on stderr what is being done to which component."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        tasks: dict[str, Any] = {}

        def on_progress(component: str, what: str, done: int, total: int) -> None:
            if component not in tasks:
                tasks[component] = shown.add_task(component, total=None, what=what)
            shown.update(tasks[component], what=what, completed=done, total=total)

        yield on_progress


def _say(report: BlockReport) -> None:
    """Print a table of each network's blocks, worst first, and the summaries below."""
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH)
    console.print(f"calibrated with {report.calibration}", highlight=False)
    for name, part in report.components.items():
        console.print(_table(name, part))
    for name, part in report.components.items():
        click.echo(_summary(name, part))


def _table(name: str, part: ComponentErrors) -> Any:
    from rich.table import Table

    table = Table(title=f"{name}, {part.runs} inputs", title_justify="left")
    table.add_column("block", no_wrap=True)
    for column in ("weights, kB", "before", "SNR, dB", "max error", "SNR of the result", "share"):
        table.add_column(column, justify="right")
    for block in part.worst_first:
        shared = block.final_share is not None
        table.add_row(
            block.name,
            f"{block.bytes / 1000:.1f}",
            f"{block.reference_bytes / 1000:.1f}",
            decibels(block.snr_db),
            f"{block.max_error:.2g}",
            decibels(block.final_snr_db) if shared else "",
            f"{block.final_share:.1%}" if shared else "",
        )
    return table


def decibels(ratio: float | None) -> str:
    """Return a stored ratio in words."""
    return "exact" if ratio is None else f"{ratio:.1f}"


def _summary(name: str, part: ComponentErrors) -> str:
    worst = part.worst_first[0]
    line = (
        f"{name}: block SNR median {part.median_db:.1f} dB, worst {decibels(worst.snr_db)} dB in {worst.name}"
    )
    if worst.final_share is None:
        return line
    most = max(part.blocks, key=lambda block: block.final_share or 0)
    return (
        f"{line}; result {decibels(part.final_snr_db)} dB, "
        f"most of its error from {most.name} ({most.final_share:.0%})"
    )

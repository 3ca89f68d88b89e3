"""`msd blocks`: the error of each block of a compressed network, alone and in the network."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from msd.cli import options
from msd.cli.command import CHECK_FAILED, Command, command_line, console
from msd.cli.options import FILE, FOLDER
from msd.cli.plain import escape, say, say_json
from msd.cli.progress import component_progress
from msd.cli.stopped import shown_if_stopped
from msd.cli.tables import print_table
from msd.files.targets import require_writable
from msd.files.wording import counted

if TYPE_CHECKING:
    from msd.compress.calibration.generated_inputs import Calibration
    from msd.measure.blockwise.result import BlockError, BlockReport, ComponentErrors

WIDTH = 160
"""The columns to print without a terminal."""

EXAMPLE = """\b
Examples:
  msd convert -o float --recipe float32
  msd convert -o small
  msd blocks small --reference float --final --plot blocks.svg
  msd blocks small --reference float --component unet --calibration prompts.txt --fail-below 35
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("bundle", type=FOLDER)
@click.option("--reference", type=FOLDER, required=True, help="The same checkpoint, converted with float32.")
@options.components()
@options.calibration
@click.option(
    "--final", is_flag=True, help="Measure each block's share of the network's error: one more run per block."
)
@click.option("--plot", type=FILE, metavar="FILE.svg|FILE.png", help="Plot the errors.")
@options.json_result()
@click.option(
    "--fail-below",
    type=options.Number(-1000, 1000),
    metavar="DB",
    help="End with exit code 3 if a median is below this SNR.",
)
@options.force("Replace an existing plot.")
def blocks(
    bundle: Path,
    reference: Path,
    components: tuple[str, ...],
    final: bool,
    plot: Path | None,
    as_json: bool,
    fail_below: float | None,
    force: bool,
    calibration: Calibration,
) -> None:
    """Compare each block of BUNDLE, alone, with a reference's, on the same inputs.

    The inputs come from real denoising runs. msd docs blockwise explains the measurement.
    """
    from msd.bundle import open_bundle
    from msd.files.schema import dump
    from msd.measure.blockwise.compare import compare, components_of_both

    if not plot:
        options.refuse_given(("force",), "without --plot, which alone writes a file")
    if plot:
        from msd.measure.blockwise.plot import check_plot, save_plot

        check_plot(plot)
        require_writable(plot, force)
    opened, other = open_bundle(bundle), open_bundle(reference)
    with (
        shown_if_stopped(partial(_print_tables, console(WIDTH, stderr=True))) as on_stopped,
        component_progress() as on_progress,
    ):
        report = compare(
            other,
            opened,
            components or components_of_both(opened, other),
            calibration,
            final,
            on_progress,
            command_line(),
            on_stopped,
        )
    say_json(dump(report)) if as_json else _print_report(report)
    if plot:
        save_plot(report, plot, force)
    if fail_below is not None:
        _require_medians(report, fail_below)


def _require_medians(report: BlockReport, least: float) -> None:
    """End with exit code 3, and a sentence for each network whose median is below `least` dB."""
    from msd.measure.limits import rounded_apart

    low = {name: p.median_db for name, p in report.components.items() if p.median_db < least}
    for name, median in low.items():
        say(f"{name}: the median of {rounded_apart(median, least, 1)} dB is below {least:g} dB", err=True)
    if low:
        raise SystemExit(CHECK_FAILED)


def _print_report(report: BlockReport) -> None:
    """Print a table of each network's blocks, worst first, and the summaries below."""
    _print_tables(console(WIDTH), report)
    for name, part in report.components.items():
        say(_summary(name, part))


def _print_tables(out: Console, report: BlockReport) -> None:
    out.print(f"calibrated with {escape(report.calibration)}")
    for name, part in report.components.items():
        print_table(out, _table(name, part))


def _table(name: str, part: ComponentErrors) -> Any:
    from rich.table import Table

    table = Table(title=f"{name}, {counted(part.runs, 'input')}", title_justify="left")
    table.add_column("block", no_wrap=True)
    shares = any(block.final_share is not None for block in part.blocks)
    of_result = ("SNR of the result, dB", "share") if shares else ()
    for column in ("weights, kB", "before, kB", "SNR, dB", "max error", *of_result, "stored"):
        table.add_column(column, justify="right")
    for block in part.worst_first:
        table.add_row(
            escape(block.name),
            f"{block.bytes / 1000:.1f}",
            f"{block.reference_bytes / 1000:.1f}",
            decibels(block.snr_db),
            f"{block.max_error:.2g}",
            *(_of_result(block) if shares else ()),
            ", ".join(block.stored),
        )
    return table


def _of_result(block: BlockError) -> tuple[str, str]:
    """Return the SNR of the network's result with this block alone compressed, and its share of the error."""
    if block.final_share is None:
        return "", ""
    return decibels(block.final_snr_db), f"{block.final_share:.1%}"


def decibels(ratio: float | None) -> str:
    """Return a stored ratio as text; None means that there is no error."""
    return "exact" if ratio is None or math.isinf(ratio) else f"{ratio:.1f}"


def with_unit(ratio: float | None) -> str:
    """Return a ratio as text with its unit, unless there is no error."""
    text = decibels(ratio)
    return text if text == "exact" else f"{text} dB"


def _summary(name: str, part: ComponentErrors) -> str:
    worst = part.worst_first[0]
    median, least = with_unit(part.median_db), with_unit(worst.snr_db)
    line = f"{name}: block SNR median {median}, worst {least} in {worst.name}"
    if worst.final_share is None:
        return line
    most = max(part.blocks, key=lambda block: block.final_share or 0)
    return (
        f"{line}; result {with_unit(part.final_snr_db)}, "
        f"most of its error from {most.name} ({most.final_share:.0%})"
    )

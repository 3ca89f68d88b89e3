"""`msd regress`: fail when a model's images are worse than golden ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli.backend_choice import GENERATING
from msd.cli.command import Command, refuse_existing
from msd.cli.generate import PRECISIONS, progress

if TYPE_CHECKING:
    from msd.regress.compare import Compared, Result
    from msd.regress.run import Regression
    from msd.regress.suite import Suite
    from msd.runtime.pipeline import Pipeline

CHECK_FAILED = 3
WIDTH = 100
"""Columns to print where there is no terminal to ask."""

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)

EXAMPLE = """\b
Examples:
  msd regress demo demo-out
  msd regress mine.toml sd21 --update
  msd regress mine.toml sd21 -o report --junit report.xml
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("suite", metavar="SUITE")
@click.argument("bundle", type=FOLDER)
@click.option("--goldens", type=FOLDER, help="The golden images.  [default: beside SUITE, without its .toml]")
@click.option("-o", "--output", type=FOLDER, help="Write index.html, result.json and the new images here.")
@click.option("--junit", type=FILE, metavar="FILE.xml", help="Write the result as JUnit XML.")
@click.option("--update", is_flag=True, help="Replace the goldens by the new images, and print the changes.")
@click.option("--backend", type=GENERATING, default="cpu", show_default=True, help="Where the networks run.")
@click.option(
    "--precision", type=PRECISIONS, default="fp32", show_default=True, help="Precision of a GPU's arithmetic."
)
@click.option("--threads", type=click.IntRange(1), show_default="one per core", help="Threads on the CPU.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON on stdout.")
@click.option("--force", is_flag=True, help="Replace an earlier report.")
def regress(
    suite: str,
    bundle: Path,
    goldens: Path | None,
    output: Path | None,
    junit: Path | None,
    update: bool,
    as_json: bool,
    force: bool,
    **engine: Any,
) -> None:
    """Generate the images of SUITE with BUNDLE, and compare them with golden ones.

    SUITE is a .toml file with prompts and thresholds, or the name of one of configs/suites/. Exit code 0: all
    thresholds hold. 3: at least one is broken. 1: the comparison was impossible. docs/regress.md explains the
    measurement.
    """
    from msd.bundle import open_bundle
    from msd.regress.run import guard
    from msd.regress.suite import find_suite, read_suite
    from msd.runtime.pipeline import Pipeline

    if update and (output or junit):
        raise click.UsageError("--update compares nothing: leave out --output and --junit.")
    path = find_suite(suite)
    chosen, folder = read_suite(path), goldens or path.with_suffix("")
    _refuse_reports(output, junit, force)
    pipeline = Pipeline(open_bundle(bundle), scheduler=chosen.drawing.scheduler, **engine)
    if update:
        _update(chosen, pipeline, folder, as_json)
        return
    guarded = guard(chosen, pipeline, folder)
    with progress() as on_step:
        found = guarded.regress(on_step)
    _write(found, output, junit, force)
    _say(found.result)
    if as_json:
        from msd.files.schema import dump

        click.echo(dump(found.result), nl=False)
    if found.result.broken:
        raise SystemExit(CHECK_FAILED)


def _refuse_reports(output: Path | None, junit: Path | None, force: bool) -> None:
    """Refuse places that are taken, before anything is drawn."""
    if output and output.is_dir() and any(output.iterdir()):
        refuse_existing(output, force)
    if junit:
        refuse_existing(junit, force)


def _update(suite: Suite, pipeline: Pipeline, folder: Path, as_json: bool) -> None:
    from msd.regress.run import require_updatable, update

    require_updatable(suite, pipeline, folder)
    with progress() as on_step:
        changes = update(suite, pipeline, folder, on_step)
    for name, change in changes.items():
        click.echo(f"{name}: {change}", err=True)
    click.echo(f"{folder}: {len(suite.drawing.pictures)} goldens written", err=True)
    if as_json:
        click.echo(json.dumps({"goldens": str(folder), "changes": changes}, ensure_ascii=False))


def _write(found: Regression, output: Path | None, junit: Path | None, force: bool) -> None:
    from msd.files.atomic import atomic_write
    from msd.regress.junit import to_junit
    from msd.regress.report import write_report

    _refuse_reports(output, junit, force)  # they may have come while pictures were drawn
    if output:
        write_report(found, output)
    if junit:
        with atomic_write(junit) as temporary:
            temporary.write_text(to_junit(found.result), "utf-8")


def _say(result: Result) -> None:
    """Print the figures of each picture, worst first, then what to know and what is broken, on stderr."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(stderr=True, highlight=False)
    console = console if console.is_terminal else Console(stderr=True, highlight=False, width=WIDTH)
    table = Table("picture")
    for column in ("PSNR", "SSIM", "hash bits", "attributes"):
        table.add_column(column, justify="right")
    for picture in result.pictures:
        table.add_row(*_cells(picture), style="red" if picture.broken else "")
    console.print(table)
    for note in result.notes:
        console.print(escape(note), style="dim")
    for sentence in result.broken:
        console.print(escape(sentence), style="red", soft_wrap=True)
    console.print(f"{escape(result.suite)}: {_summary(result)}", soft_wrap=True)


def _cells(picture: Compared) -> tuple[str, ...]:
    from msd.regress.compare import decibels

    share = "" if picture.attributes is None else f"{picture.attributes:.0%}"
    distance = str(picture.hash_distance)
    return picture.name, decibels(picture.psnr_db), f"{picture.ssim:.4f}", distance, share


def _summary(result: Result) -> str:
    count, broken = len(result.pictures), len(result.broken)
    said = f"{broken} threshold{'s' * (broken > 1)} broken" if broken else "all thresholds hold"
    return f"{count} picture{'s' * (count > 1)} in {result.seconds:.1f} s, {said}"

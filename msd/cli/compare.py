"""`msd compare`: two models' images of the same prompts, beside the first at the second's number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.bounds import MOST_GUIDANCE, MOST_PROMPTS
from msd.cli import completion, options
from msd.cli.backend_choice import generating_backend, say_adapter
from msd.cli.command import CHECK_FAILED, Command, console
from msd.cli.options import FILE, FOLDER
from msd.cli.plain import escape, say, say_json
from msd.cli.progress import column_progress
from msd.cli.stopped import shown_if_stopped
from msd.cli.tables import print_table
from msd.errors import MsdError
from msd.files.wording import counted

if TYPE_CHECKING:
    from msd.train.comparison.compare import Comparison
    from msd.train.comparison.result import Column, ComparisonResult, ImageDistance

WIDTH = 100
"""The columns to print without a terminal."""

MOST_BATCH = 1024
STOPPED = "the table has the images that were made until then"

EXAMPLE = """\b
Examples:
  msd compare teacher student --prompts prompts.txt -o report
  msd compare sd21 sd21-int8 --prompts prompts.txt --limit 20 --at-least 30
  msd compare demo-out demo-out --prompts prompts.txt --scheduler-b dpm++ --steps-b 10
"""


def _side(letter: str) -> Callable[[Any], Any]:
    """Return the options of one model; they become an argument, `model_a` or `model_b`, by name."""
    of, end = letter.upper(), f"_{letter}"
    own = f"{of}'s own"
    return options.gathered(
        f"model{end}",
        lambda **values: {name.removesuffix(end): value for name, value in values.items()},
        click.option(f"--steps-{letter}", type=options.STEPS, show_default=own, help=f"Steps of {of}."),
        click.option(
            f"--guidance-{letter}",
            type=options.Number(0, MOST_GUIDANCE),
            show_default=own,
            help=f"Guidance of {of}; 1 or less: none.",
        ),
        click.option(
            f"--scheduler-{letter}",
            callback=options.known_scheduler,
            metavar="NAME[+SCALE]",
            shell_complete=completion.completes(completion.schedulers),
            help=f"Scheduler of {of}, as in msd generate.  [default: {own}]",
        ),
    )


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("a", type=FOLDER)
@click.argument("b", type=FOLDER)
@click.option("--prompts", type=FILE, required=True, help="A text file of prompts, one per line.")
@click.option("--limit", type=click.IntRange(1, MOST_PROMPTS), help="Only the first N prompts.", metavar="N")
@click.option(
    "--seed",
    type=options.SEED,
    default=0,
    show_default=True,
    help="Of the first prompt's noise; each next prompt's is one more.",
)
@_side("a")
@_side("b")
@generating_backend("Where converted files run.")
@click.option(
    "--batch",
    type=click.IntRange(1, MOST_BATCH),
    default=8,
    show_default=True,
    help="How many images of a checkpoint are denoised at once.",
)
@click.option("--clip", type=FOLDER, help="A CLIPModel of transformers, for CLIP scores.", metavar="FOLDER")
@click.option("-o", "--output", type=FOLDER, help="Write sheet.png, a contact sheet, and result.json here.")
@click.option(
    "--at-least",
    type=options.Number(0, 1000, open=True),
    metavar="DB",
    help="Exit code 3 if the median PSNR of B's images is below.",
)
@options.json_result()
@options.force("Replace an earlier report.")
def compare(
    a: Path,
    b: Path,
    prompts: Path,
    limit: int | None,
    seed: int,
    model_a: dict[str, Any],
    model_b: dict[str, Any],
    backend: str,
    batch: int,
    clip: Path | None,
    output: Path | None,
    at_least: float | None,
    as_json: bool,
    force: bool,
) -> None:
    """Compare the images of model B with those of model A: same prompts, same noise.

    Each is a folder that msd-convert wrote, or a checkpoint in diffusers' layout, which PyTorch runs (pip
    install 'msd[train]'). Where B takes another number of steps than A, A's images at that number stand
    beside. msd docs compare explains the measurement.
    """
    from msd.compress.calibration.prompt_file import read_prompts
    from msd.files.schema import dump
    from msd.run.runners.engine import Engine
    from msd.run.runners.registry import find_backend
    from msd.train.comparison.compare import compare as compare_models
    from msd.train.comparison.model import ComparedModel
    from msd.train.comparison.report_folder import require_replaceable, write_report

    _refuse_unused(a, b, output)
    if output:
        require_replaceable(output, force)
    say_adapter(Engine(find_backend(backend, generating=True)))
    with (
        shown_if_stopped(partial(_keep_stopped, output), STOPPED) as on_stopped,
        column_progress() as on_column,
    ):
        comparison = compare_models(
            ComparedModel(a, backend=backend, **model_a),
            ComparedModel(b, backend=backend, **model_b),
            read_prompts(prompts)[:limit],
            seed=seed,
            batch=batch,
            clip=clip,
            at_least_db=at_least,
            on_column=on_column,
            on_stopped=on_stopped,
        )
    _print_result(comparison.result)
    if as_json:
        say_json(dump(comparison.result))
    if output:
        require_replaceable(output, force)  # it may have appeared while images were generated
        write_report(comparison, output)
        say(f"wrote {output}: sheet.png and result.json", err=True)
    if comparison.result.broken:
        raise SystemExit(CHECK_FAILED)


def _keep_stopped(output: Path | None, comparison: Comparison) -> None:
    """Print, and write to a folder in `output`, what was there when something ended the comparison."""
    from msd.train.comparison import report_folder

    _print_result(comparison.result)
    try:
        if output:
            place = output / report_folder.STOPPED
            report_folder.write_report(comparison, place)
            say(f"wrote {place}: sheet.png and result.json", err=True)
    except MsdError as problem:  # the exit code is that of what ended the comparison
        say(f"error: {problem}", err=True)


def _print_result(result: ComparisonResult) -> None:
    """Print a row for each measure, a column for each model and number of steps, on stderr."""
    from rich.table import Table

    from msd.run.runtime.scheduler import faults_of

    out = console(WIDTH, stderr=True)
    table = Table("")
    for column in result.columns:
        table.add_column(escape(column.label), justify="right")
    for name, cells in _rows(result):
        table.add_row(name, *map(escape, cells))
    print_table(out, table)
    models = {column.label[0]: column for column in result.columns}  # "A, 20 steps"
    for letter, column in models.items():
        say(f"{letter}: {column.model}", err=True)
        for fault in faults_of(*column.scheduler.split(", ")):
            say(f"warning: {letter}: {fault}", err=True)
    steps, prompts = result.columns[0].steps, result.prompts
    of = f"{counted(prompts, 'prompt')}, seeds from {result.seed}"
    say(f"{of}; distances from A at {counted(steps, 'step')} are medians", err=True)
    if result.broken:
        say(result.broken, err=True)


def _rows(result: ComparisonResult) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that any column has a value of."""
    for name, cell in CELLS.items():
        cells = [cell(column) for column in result.columns]
        if any(cells):
            yield name, cells


def _of(write: Callable[[ImageDistance], str]) -> Callable[[Column], str]:
    """Return a function that writes a part of a column's distance; nothing for the reference."""
    return lambda column: "" if column.distance is None else write(column.distance)


def _decibels(value: float | None) -> str:
    return "equal" if value is None else f"{value:.1f} dB"


def _product(evaluations: int, passes: int) -> str:
    return f"{evaluations} = {evaluations // passes} × {passes}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


CELLS: dict[str, Callable[[Column], str]] = {
    "scheduler": lambda column: column.scheduler,
    "guidance": lambda column: f"{column.guidance:g}",
    "evaluations of the U-Net": lambda column: _product(column.evaluations, column.passes),
    "seconds per image": lambda column: f"{column.seconds_per_image:.3g}",
    "PSNR of images": _of(lambda found: _decibels(found.psnr_db)),
    "PSNR of latents": _of(lambda found: _decibels(found.latent_psnr_db)),
    "relative error of latents": _of(lambda found: f"{found.latent_error:.3g}"),
    "SSIM": _of(lambda found: _number(found.ssim, ".4f")),
    "bits of perceptual hash": _of(lambda found: _number(found.hash_distance, "g")),
    "attributes right": lambda column: _number(column.attributes, ".1%"),
    "images with all right": lambda column: _number(column.all_attributes, ".1%"),
    "CLIP score": lambda column: _number(column.clip_score, ".2f"),
}


def _refuse_unused(a: Path, b: Path, output: Path | None) -> None:
    """Refuse options that do nothing for these models."""
    from msd.train.comparison.model import is_bundle

    if not output:
        options.refuse_given(("force",), "without --output")
    converted = {is_bundle(folder) for folder in (a, b)}
    if True not in converted:
        options.refuse_given(("backend",), "where both models are checkpoints, which PyTorch runs")
    if False not in converted:
        options.refuse_given(("batch",), "where both models are converted, each for its own batch")

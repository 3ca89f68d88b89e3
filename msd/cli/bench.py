"""`msd bench`: latency and memory of each network of a bundle."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from msd.cli.backend_choice import MEASURING, chosen_options, options_of_backends
from msd.cli.command import Command, Failure, refuse_existing
from msd.families import file_names

if TYPE_CHECKING:
    from msd.bench.result import Benchmark
    from msd.bench.run import OnProgress
    from msd.bundle import Bundle

EXECUTIONS = ("pipelined", "sequential", "resident")
CONDITIONS = ("precision", "threads", "float_weights")
EFFORT = ("repeats", "warmups", "min_seconds", "max_seconds")
CONDITION_FAILED = 3
WIDTH = 150
"""Columns to print where there is no terminal to ask."""

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)

EXAMPLE = """\b
Examples:
  msd bench demo-out --backend litert-cpu --backend litert-gpu
  msd bench sd21 --backend litert-gpu --precision fp16 -o bench.json
  msd bench sd21-w8 --compare sd21-float16 --backend litert-gpu --fail-slower 1.05
  msd bench sd21 --backend android --benchmark-binary android_aarch64_benchmark_model
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("bundle", type=FOLDER)
@click.option(
    "--backend",
    "backends",
    type=MEASURING,
    multiple=True,
    default=["litert-cpu"],
    help="Where to run; may be given several times.  [default: litert-cpu]",
)
@click.option(
    "--component",
    "components",
    type=click.Choice(file_names()),
    multiple=True,
    help="Measure only this one; may be repeated.",
)
@click.option(
    "--steps", type=click.IntRange(1), default=20, show_default=True, help="Denoising steps of an image."
)
@click.option(
    "--draw",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Steps of an image that the pipeline generates; 0: none.",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16"]),
    default="fp32",
    show_default=True,
    help="Precision of a GPU's arithmetic.",
)
@click.option("--threads", type=click.IntRange(1), show_default="one per core", help="Threads on the CPU.")
@click.option(
    "--float-weights/--dynamic-range",
    default=True,
    show_default=True,
    help="CPU, int8 weights: float arithmetic, as on a GPU, or faster with inputs rounded to 8 bits.",
)
@click.option(
    "--execution",
    type=click.Choice(EXECUTIONS),
    default="pipelined",
    show_default=True,
    help="When the pipeline loads networks, as for msd generate.",
)
@click.option(
    "--repeats", type=click.IntRange(1), default=20, show_default=True, help="Measured runs, at least."
)
@click.option(
    "--warmups", type=click.IntRange(0), default=2, show_default=True, help="Warm-up runs, not measured."
)
@click.option(
    "--min-seconds",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Measure at least this long.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Start no run after this time.",
)
@click.option(
    "--compare", "other", type=FOLDER, metavar="OTHER", help="Measure another bundle, taking turns."
)
@click.option(
    "--fail-slower",
    type=click.FloatRange(0, min_open=True),
    metavar="RATIO",
    help="Exit code 3 if any time of BUNDLE exceeds OTHER's by this factor.",
)
@options_of_backends
@click.option(
    "--verify/--no-verify", default=True, show_default=True, help="Check each file's SHA-256 first."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout instead of tables.")
@click.option("-o", "--output", type=FILE, help="Write JSON to this file, or tables where it ends in .md.")
@click.option("--force", is_flag=True, help="Replace the output file.")
def bench(bundle: Path, other: Path | None, output: Path | None, **options: Any) -> None:
    """Measure the networks of BUNDLE, a folder that msd-convert wrote, and a whole image.

    Each network runs on seeded random inputs in a process of its own. Bench measures the time of loading and
    of the first run, the median and the 90th percentile of the others, peak memory, and the operations that a
    delegate accepted, by its own log. It computes the time of an image from these, and generates one.

    Exit code 3: slower than --fail-slower allows. 1: the measurement failed. 2: wrong usage.
    """
    from msd.bundle import open_bundle

    options["own"] = chosen_options(options["backends"], options)
    if options["fail_slower"] and other is None:
        raise click.UsageError("--fail-slower compares with --compare OTHER.")
    if output:
        refuse_existing(output, options["force"])
    talk = Console(stderr=True)
    opened = [open_bundle(folder, options["verify"]) for folder in (bundle, other) if folder]
    with _progress(talk) as told:
        made = _made(opened, options, told)
    if output:
        _write(made, output, options["force"])
    _print(made, options["as_json"])
    _require_all(made)
    _require_fast(made, options["fail_slower"], talk)


def _made(bundles: Sequence[Bundle], options: dict[str, Any], on_progress: OnProgress) -> Benchmark:
    from msd.bench.run import BenchSettings, benchmark
    from msd.runners.runner import Conditions
    from msd.runners.timings import Effort

    settings = BenchSettings(
        backends=tuple(options["backends"]),
        components=tuple(dict.fromkeys(options["components"])),
        steps=options["steps"],
        draw=options["draw"],
        conditions=Conditions(**{name: options[name] for name in CONDITIONS}),
        execution=options["execution"],
        effort=Effort(**{name: options[name] for name in EFFORT}),
        options=options["own"],
    )
    return benchmark(bundles, settings, shlex.join(["msd", *sys.argv[1:]]), on_progress)


@contextmanager
def _progress(talk: Console) -> Iterator[OnProgress]:
    """Show on stderr what is being measured, and how far all of it is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=talk, transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda words, part: progress.update(task, description=words, completed=part)


def _print(made: Benchmark, as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    from msd.bench.result import dump_benchmark
    from msd.bench.table import remarks, tables

    if as_json:
        click.echo(dump_benchmark(made), nl=False)
        return
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, WIDTH)
    for found in tables(made):
        shown = Table(*found.columns, title=escape(found.title), title_justify="left", box=box.SIMPLE)
        for row in found.rows:
            shown.add_row(*map(escape, row))
        out.print(shown)
    for remark in remarks(made):
        out.print(escape(f"{remark}."))


def _write(made: Benchmark, output: Path, force: bool) -> None:
    from msd.bench.result import dump_benchmark
    from msd.bench.table import to_markdown
    from msd.files.atomic import atomic_write

    refuse_existing(output, force)  # it may have come while this was measured
    with atomic_write(output) as temporary:
        text = to_markdown(made) if output.suffix == ".md" else dump_benchmark(made)
        temporary.write_text(text, "utf-8")


def _require_all(made: Benchmark) -> None:
    refused = [refusal.why for benched in made.bundles for refusal in benched.refusals]
    if refused:
        raise Failure("; ".join(refused))


def _require_fast(made: Benchmark, limit: float | None, talk: Console) -> None:
    slower = [ratio for ratio in made.ratios if limit is not None and ratio.ratio > limit]
    for ratio in slower:
        words = f"{ratio.what} on {ratio.backend} takes {ratio.ratio:.2f} times as long (allowed: {limit:g})"
        talk.print(escape(words), style="red")
    if slower:
        raise SystemExit(CONDITION_FAILED)

"""`msd bench`: how long each network of a bundle takes, and how much memory."""

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

from msd.bundle import FILES
from msd.cli.command import Command, Failure, refuse_existing

if TYPE_CHECKING:
    from msd.bench.android import PhoneSettings
    from msd.bench.result import Benchmark
    from msd.bench.run import OnProgress
    from msd.bundle import Bundle

BACKENDS = ("litert-cpu", "litert-gpu", "tflite-runtime", "android")
EXECUTIONS = ("pipelined", "sequential", "resident")
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
    type=click.Choice(BACKENDS),
    multiple=True,
    default=["litert-cpu"],
    help="Where to run; may be given several times.  [default: litert-cpu]",
)
@click.option("--component", "components", type=click.Choice(FILES), multiple=True, help="Only this one.")
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Steps of a picture.")
@click.option(
    "--draw",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Steps of a picture that the pipeline really draws; 0 draws none.",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16"]),
    default="fp32",
    show_default=True,
    help="What a GPU reckons in.",
)
@click.option("--threads", type=click.IntRange(1), show_default="one per core", help="Threads on the CPU.")
@click.option(
    "--float-weights/--dynamic-range",
    default=True,
    show_default=True,
    help="CPU, int8 weights: float arithmetic, as on a GPU, or with inputs rounded to 8 bits too.",
)
@click.option(
    "--execution",
    type=click.Choice(EXECUTIONS),
    default="pipelined",
    show_default=True,
    help="When the pipeline has networks in memory, as for msd generate.",
)
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True, help="Runs that count.")
@click.option("--warmups", type=click.IntRange(0), default=2, show_default=True, help="Runs before them.")
@click.option(
    "--min-seconds",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Run for as long at least.",
)
@click.option(
    "--max-seconds", type=click.FloatRange(0), default=30.0, show_default=True, help="Begin no run after it."
)
@click.option("--compare", "other", type=FOLDER, metavar="OTHER", help="Measure another bundle in turn.")
@click.option(
    "--fail-slower",
    type=click.FloatRange(0, min_open=True),
    metavar="RATIO",
    help="Exit code 3 if BUNDLE takes more than so many times OTHER's time, in anything.",
)
@click.option("--benchmark-binary", "binary", type=FILE, help="android: the program that measures there.")
@click.option("--serial", help="android: which phone, where adb sees several.")
@click.option("--adb", default="adb", show_default=True, help="android: adb's name or path.")
@click.option(
    "--device-folder",
    default="/data/local/tmp/msd",
    show_default=True,
    help="android: where files go on the phone.",
)
@click.option("--keep", is_flag=True, help="android: leave the files there, for the next time.")
@click.option(
    "--cool-seconds",
    type=click.FloatRange(0),
    default=300.0,
    show_default=True,
    help="android: how long to wait for a warm phone to cool.",
)
@click.option(
    "--verify/--no-verify", default=True, show_default=True, help="Check each file's SHA-256 first."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout instead of tables.")
@click.option("-o", "--output", type=FILE, help="Write JSON to this file, or tables where it ends in .md.")
@click.option("--force", is_flag=True, help="Replace the output file.")
def bench(bundle: Path, other: Path | None, output: Path | None, **options: Any) -> None:
    """Measure the networks of BUNDLE, a folder that msd-convert wrote, and a whole picture.

    Each network is loaded in a process of its own and run on seeded random inputs: the time of loading, of
    the first run, the median and the 90th percentile of the others; peak memory; and which operations a
    delegate took, as its own log says. A picture is computed from these, and drawn in a few steps.

    Exit code 3: slower than --fail-slower allows. 1: it could not be measured. 2: wrong usage.
    """
    from msd.bundle import open_bundle

    if "android" in options["backends"] and not options["binary"]:
        raise click.UsageError("--backend android needs --benchmark-binary, a benchmark_model for Android.")
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
    from msd.bench.run import Settings, benchmark
    from msd.bench.timings import Effort

    settings = Settings(
        tuple(dict.fromkeys(options["backends"])),
        tuple(dict.fromkeys(options["components"])),
        options["steps"],
        options["draw"],
        options["precision"],
        options["threads"],
        options["float_weights"],
        options["execution"],
        Effort(*(options[name] for name in ("repeats", "warmups", "min_seconds", "max_seconds"))),
        _phone(options) if options["binary"] else None,
    )
    return benchmark(bundles, settings, shlex.join(["msd", *sys.argv[1:]]), on_progress)


def _phone(options: dict[str, Any]) -> PhoneSettings:
    from msd.bench.android import PhoneSettings

    names = ("binary", "serial", "adb", "device_folder", "keep", "cool_seconds")
    return PhoneSettings(*(options[name] for name in names))


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

"""`msd bench`: the latency and memory of each network of a bundle."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from msd.bundle import FILES
from msd.cli import options
from msd.cli.command import CHECK_FAILED, Command, Failure, console, refuse_existing
from msd.cli.options import FILE, FOLDER
from msd.cli.progress import benchmark_progress

if TYPE_CHECKING:
    from msd.bench.result import Backend, Benchmark
    from msd.runners.worker import Precision
    from msd.runtime.execution import Execution

BACKENDS = ("litert-cpu", "litert-gpu", "tflite-runtime", "android")
EXECUTIONS = ("pipelined", "sequential", "resident")
WIDTH = 150
"""Columns to print where there is no terminal to ask."""

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
@options.force("Replace the output file.")
def bench(
    bundle: Path,
    backends: tuple[Backend, ...],
    components: tuple[str, ...],
    steps: int,
    draw: int,
    precision: Precision,
    threads: int | None,
    float_weights: bool,
    execution: Execution,
    repeats: int,
    warmups: int,
    min_seconds: float,
    max_seconds: float,
    other: Path | None,
    fail_slower: float | None,
    binary: Path | None,
    serial: str | None,
    adb: str,
    device_folder: str,
    keep: bool,
    cool_seconds: float,
    verify: bool,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Measure the networks of BUNDLE, a folder that msd-convert wrote, and a whole picture.

    Each network is loaded in a process of its own and run on seeded random inputs: the time of loading, of
    the first run, the median and the 90th percentile of the others; peak memory; and which operations a
    delegate took, as its own log says. A picture is computed from these, and drawn in a few steps.

    Exit code 3: slower than --fail-slower allows. 1: it could not be measured. 2: wrong usage.
    """
    from msd.bench.android import PhoneSettings
    from msd.bench.run import Settings, benchmark
    from msd.bench.timings import Effort
    from msd.bundle import open_bundle

    if "android" in backends and not binary:
        raise click.UsageError("--backend android needs --benchmark-binary, a benchmark_model for Android.")
    if fail_slower and other is None:
        raise click.UsageError("--fail-slower compares with --compare OTHER.")
    if output:
        refuse_existing(output, force)
    phone = None
    if binary:
        phone = PhoneSettings(
            binary=binary,
            serial=serial,
            adb=adb,
            folder=device_folder,
            keep=keep,
            cool_seconds=cool_seconds,
        )
    settings = Settings(
        backends=tuple(dict.fromkeys(backends)),
        components=tuple(dict.fromkeys(components)),
        steps=steps,
        draw=draw,
        precision=precision,
        threads=threads,
        float_weights=float_weights,
        execution=execution,
        effort=Effort(repeats, warmups, min_seconds, max_seconds),
        phone=phone,
    )
    talk = Console(stderr=True)
    opened = [open_bundle(folder, verify) for folder in (bundle, other) if folder]
    with benchmark_progress(talk) as on_progress:
        result = benchmark(opened, settings, shlex.join(["msd", *sys.argv[1:]]), on_progress)
    if output:
        _write(result, output, force)
    _print(result, as_json)
    _require_all(result)
    _require_fast(result, fail_slower, talk)


def _print(benchmark: Benchmark, as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    from msd.bench.result import dump_benchmark
    from msd.bench.table import remarks, tables

    if as_json:
        click.echo(dump_benchmark(benchmark), nl=False)
        return
    out = console(WIDTH)
    for table in tables(benchmark):
        shown = Table(*table.columns, title=escape(table.title), title_justify="left", box=box.SIMPLE)
        for row in table.rows:
            shown.add_row(*map(escape, row))
        out.print(shown)
    for remark in remarks(benchmark):
        out.print(escape(f"{remark}."))


def _write(benchmark: Benchmark, output: Path, force: bool) -> None:
    from msd.bench.result import dump_benchmark
    from msd.bench.table import to_markdown
    from msd.files.atomic import complete

    refuse_existing(output, force)  # it may have come while this was measured
    with complete(output) as temporary:
        text = to_markdown(benchmark) if output.suffix == ".md" else dump_benchmark(benchmark)
        temporary.write_text(text, "utf-8")


def _require_all(benchmark: Benchmark) -> None:
    refused = [refusal.why for benched in benchmark.bundles for refusal in benched.refusals]
    if refused:
        raise Failure("; ".join(refused))


def _require_fast(benchmark: Benchmark, limit: float | None, talk: Console) -> None:
    slower = [ratio for ratio in benchmark.ratios if limit is not None and ratio.ratio > limit]
    for ratio in slower:
        words = f"{ratio.what} on {ratio.backend} takes {ratio.ratio:.2f} times as long (allowed: {limit:g})"
        talk.print(escape(words), style="red")
    if slower:
        raise SystemExit(CHECK_FAILED)

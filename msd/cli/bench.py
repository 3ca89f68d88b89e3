"""`msd bench`: latency and memory of each network of a bundle."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from msd.bounds import MOST_STEPS
from msd.cli import options
from msd.cli.backend_choice import (
    MEASURING,
    chosen_options,
    options_of_backends,
    refuse_unused_conditions,
)
from msd.cli.bench_checks import check_options, refuse_alone, refuse_useless
from msd.cli.command import CHECK_FAILED, Command, Failure, console
from msd.cli.options import FOLDER
from msd.cli.plain import escape, say, say_json
from msd.cli.progress import benchmark_progress
from msd.cli.stopped import shown_if_stopped
from msd.cli.tables import print_table
from msd.files.targets import require_writable

if TYPE_CHECKING:
    from msd.bundle import Bundle, ImageSize
    from msd.gpu.gpu_api import GpuApi
    from msd.measure.bench.result import Benchmark, BundleMeasurements
    from msd.measure.bench.run import BenchSettings, OnProgress, OnStopped
    from msd.run.runners.runner import Precision
    from msd.run.runtime.execution import Execution

EXECUTIONS = ("pipelined", "sequential", "resident")
WIDTH = 150
"""The columns to print without a terminal."""

EXAMPLE = """\b
Examples:
  msd bench demo-out --backend litert-cpu --backend litert-gpu
  msd bench sd21 --backend litert-gpu --precision fp16 -o bench.json
  msd bench sd21 --from verdict.json
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
@options.components(options.FILE_NAME)
@options.steps(help="Denoising steps of an image.")
@click.option(
    "--draw",
    type=click.IntRange(0, MOST_STEPS),
    default=2,
    show_default=True,
    help="Steps of an image that the pipeline generates; 0: none.",
)
@options.precision()
@options.gpu_api()
@options.threads()
@options.float_weights()
@click.option(
    "--execution",
    type=click.Choice(EXECUTIONS),
    default="pipelined",
    show_default=True,
    help="When the pipeline loads networks, as for msd generate.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1_000_000),
    default=20,
    show_default=True,
    help="Measured runs, at least.",
)
@click.option(
    "--warmups",
    type=click.IntRange(0, 1_000_000),
    default=2,
    show_default=True,
    help="Warm-up runs, not measured.",
)
@click.option(
    "--min-seconds",
    type=options.Number(0, options.DAY),
    default=1.0,
    show_default=True,
    help="Measure at least this long.",
)
@click.option(
    "--max-seconds",
    type=options.Number(0, options.DAY),
    default=30.0,
    show_default=True,
    help="Start no run after this time.",
)
@options.size("The size of the images")
@click.option(
    "--compare", "other", type=FOLDER, metavar="OTHER", help="Measure another bundle, taking turns."
)
@click.option(
    "--from",
    "measured",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    metavar="VERDICT.json",
    help="Measure nothing, and show what an exported page measured on its device.",
)
@click.option(
    "--fail-slower",
    type=options.Number(0, 1e6, open=True),
    metavar="RATIO",
    help="Exit code 3 if any time of BUNDLE exceeds OTHER's by this factor.",
)
@options_of_backends
@click.option(
    "--verify/--no-verify", default=True, show_default=True, help="Check each file's SHA-256 first."
)
@options.tables
@options.force("Replace the output file.")
def bench(
    bundle: Path,
    backends: tuple[str, ...],
    components: tuple[str, ...],
    steps: int | None,
    draw: int,
    precision: Precision,
    gpu_api: GpuApi | None,
    threads: int | None,
    float_weights: bool,
    execution: Execution,
    repeats: int,
    warmups: int,
    min_seconds: float,
    max_seconds: float,
    size: ImageSize | None,
    other: Path | None,
    measured: Path | None,
    fail_slower: float | None,
    verify: bool,
    as_json: bool,
    output: Path | None,
    force: bool,
    **of_backends: Any,
) -> None:
    """Measure the networks of BUNDLE, a folder that msd-convert wrote, and a whole image.

    Each network runs on seeded random inputs in a process of its own. Bench measures the time of loading and
    of the first run, the median and the 90th percentile of the others, peak memory, and the operations that a
    delegate accepted, by its own log. It computes the time of an image from these, and generates one.

    On a phone, a whole image is the matter of a test that msd export-android --app --expect writes.

    Exit code 3: slower than --fail-slower allows. 1: the measurement failed. 2: wrong usage.
    """
    from msd.bundle import open_bundle
    from msd.conversion.sizes.pick import one_size
    from msd.measure.bench.run import BenchSettings
    from msd.run.runners.runner import Conditions
    from msd.run.runners.timings import Effort

    refuse_useless(measured, components, draw)
    if min_seconds > max_seconds:
        raise click.UsageError(f"--min-seconds {min_seconds:g} is more than --max-seconds {max_seconds:g}.")
    refuse_unused_conditions(backends)
    settings = BenchSettings(
        backends=tuple(dict.fromkeys(backends)),
        components=tuple(dict.fromkeys(components)),
        steps=steps,
        draw=draw,
        conditions=Conditions(threads, float_weights, precision, gpu_api),
        execution=execution,
        effort=Effort(repeats, warmups, min_seconds, max_seconds),
        options=chosen_options(backends, of_backends),
    )
    refuse_alone(fail_slower, measured, other)
    _require_output(output, force)
    stderr = console(0, stderr=True)
    opened = [open_bundle(folder, verify) for folder in (bundle, other) if folder]
    with ExitStack() as stack:
        on_stopped = stack.enter_context(shown_if_stopped(partial(_print_stopped, opened)))
        picked = [stack.enter_context(one_size(each, size)) for each in opened]
        _require_alike(picked, opened, fail_slower)
        if not measured:
            check_options(picked, [bundle.folder for bundle in opened], settings)
        on_progress = stack.enter_context(benchmark_progress(stderr))
        result = _result(picked, settings, measured, on_progress, on_stopped)
    result = _as_given(result, opened)
    _print(result, as_json)
    if output:
        _write(result, output, force)
    _require_measured(result)
    _require_fast(result, fail_slower, stderr)


def _require_output(output: Path | None, force: bool) -> None:
    """Refuse a file that may not be written, and --force without one."""
    if output:
        require_writable(output, force)
    else:
        options.refuse_given(("force",), "without --output")


def _result(
    bundles: Sequence[Bundle],
    settings: BenchSettings,
    measured: Path | None,
    on_progress: OnProgress,
    on_stopped: OnStopped,
) -> Benchmark:
    """Return what a browser measured of the first bundle, or else what is measured now of all of them."""
    from msd.measure.bench.browser import browser_benchmark
    from msd.measure.bench.run import benchmark
    from msd.measure.judging.browser import load_browser_verdict

    command = shlex.join(["msd", *sys.argv[1:]])
    if measured:
        return browser_benchmark(bundles[0], load_browser_verdict(measured), command, settings.steps)
    return benchmark(bundles, settings, command, on_progress, on_stopped)


def _as_given(benchmark: Benchmark, bundles: Sequence[Bundle]) -> Benchmark:
    """Return a benchmark of one size of `bundles` under the names of their own folders."""
    pairs = zip(benchmark.bundles, bundles, strict=True)
    return replace(benchmark, bundles=tuple(_called(each, str(bundle.folder)) for each, bundle in pairs))


def _called(measured: BundleMeasurements, folder: str) -> BundleMeasurements:
    """Return what was measured of a bundle under the name of its own folder, in sentences too."""
    refusals = (replace(each, why=each.why.replace(measured.bundle, folder)) for each in measured.refusals)
    return replace(measured, bundle=folder, refusals=tuple(refusals))


def _print_stopped(bundles: Sequence[Bundle], benchmark: Benchmark) -> None:
    _print_tables(_as_given(benchmark, bundles), console(WIDTH, stderr=True))


def _print(benchmark: Benchmark, as_json: bool) -> None:
    from msd.measure.bench.result import dump_benchmark

    if as_json:
        say_json(dump_benchmark(benchmark))
    else:
        _print_tables(benchmark, console(WIDTH))


def _print_tables(benchmark: Benchmark, out: Console) -> None:
    from rich import box
    from rich.table import Table

    from msd.measure.bench.table import remarks, tables

    for table in tables(benchmark):
        styled = Table(*table.columns, title=escape(table.title), title_justify="left", box=box.SIMPLE)
        for row in table.rows:
            styled.add_row(*map(escape, row))
        print_table(out, styled)
    for remark in remarks(benchmark):
        out.print(escape(f"{remark}."))


def _write(benchmark: Benchmark, output: Path, force: bool) -> None:
    from msd.files.atomic import atomic_write
    from msd.measure.bench.result import dump_benchmark
    from msd.measure.bench.table import to_markdown

    with atomic_write(output, force) as temporary:
        text = to_markdown(benchmark) if options.is_markdown(output) else dump_benchmark(benchmark)
        temporary.write_text(text, "utf-8")


def _require_alike(picked: Sequence[Bundle], given: Sequence[Bundle], limit: float | None) -> None:
    """Say in what the bundles' works differ; with a limit, raise Failure instead."""
    from msd.measure.bench.alike import differences

    for clause in differences(picked, [str(bundle.folder) for bundle in given]):
        if limit is not None:
            raise Failure(f"--fail-slower compares times of the same work, but {clause}; leave it out")
        say(f"note: the times are of different work: {clause}", err=True)


def _require_measured(benchmark: Benchmark) -> None:
    reasons = [refusal.why for benched in benchmark.bundles for refusal in benched.refusals]
    if reasons:
        raise Failure("; ".join(reasons))


def _require_fast(benchmark: Benchmark, limit: float | None, stderr: Console) -> None:
    """End with exit code 3 where BUNDLE is slower than the limit, and with 1 where nothing was compared.

    Networks that were measured of one of two bundles alone are said.
    """
    from msd.measure.bench.alike import uncompared
    from msd.measure.limits import rounded_apart

    for name in uncompared(benchmark):
        say(f"note: {name} was measured of one bundle alone", err=True)
    if limit is None:
        return
    if not benchmark.ratios:
        raise Failure("no network was measured of both bundles, so that --fail-slower compares nothing")
    slower = [ratio for ratio in benchmark.ratios if ratio.ratio > limit]
    for ratio in slower:
        times = rounded_apart(ratio.ratio, limit, 2)
        sentence = f"{ratio.what} on {ratio.backend} takes {times} times as long (allowed: {limit:g})"
        stderr.print(escape(sentence), style="red")
    if slower:
        raise SystemExit(CHECK_FAILED)

"""`msd kernels`: what each dispatch of a network costs on this machine's GPU."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from msd.cli import completion, options
from msd.cli.backend_choice import say_adapter
from msd.cli.command import Command, Failure, console
from msd.cli.options import FILE, NamedPath
from msd.cli.plain import escape, say, say_json
from msd.cli.progress import benchmark_progress
from msd.cli.stopped import shown_if_stopped
from msd.cli.tables import print_table
from msd.errors import OutputExists, OutputUnwritable
from msd.files.targets import require_writable
from msd.files.wording import listed

if TYPE_CHECKING:
    from msd.bundle import ImageSize
    from msd.gpu.gpu_api import GpuApi
    from msd.measure.profiling.measure import NetworkFile
    from msd.measure.profiling.result import KernelReport
    from msd.run.runners.runner import Precision

WIDTH = 170
"""The columns to print without a terminal."""

EXAMPLE = """\b
Examples:
  msd kernels demo-out
  msd kernels sd21 --component unet --page kernels.html --trace kernels.json
  msd kernels unet.tflite --ablation -o ablation.json
  msd kernels sd21 --component unet --winograd
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("bundle", metavar="BUNDLE|FILE.tflite", type=NamedPath(path_type=Path))
@options.components(options.FILE_NAME)
@click.option(
    "--precision",
    type=click.Choice(["fp16", "fp32"]),
    default="fp16",
    show_default=True,
    help="Arithmetic, where the GPU has shader-f16; long sums are always fp32.",
)
@options.gpu_api()
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Runs behind each median.",
)
@click.option("--ablation", is_flag=True, help="Measure what each optimisation saves, in turn.")
@click.option(
    "--device",
    default="adreno-740",
    metavar="NAME|FILE",
    shell_complete=completion.completes(completion.devices),
    show_default=True,
    help="The device that --ablation counts for too.",
)
@click.option(
    "--winograd", is_flag=True, help="Measure the 3x3 convolutions in each of Winograd's tile sizes."
)
@options.size("The size of the images")
@click.option("--page", type=FILE, metavar="FILE.html", help="Write a page with a flame chart.")
@click.option("--trace", type=FILE, metavar="FILE.json", help="Write a trace for Chrome or Perfetto.")
@options.tables
@options.force("Replace existing files.")
def kernels(
    bundle: Path,
    components: tuple[str, ...],
    precision: Precision,
    gpu_api: GpuApi | None,
    repeats: int,
    ablation: bool,
    device: str,
    winograd: bool,
    size: ImageSize | None,
    page: Path | None,
    trace: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Measure the GPU kernels of the networks of BUNDLE, or of one file.

    Each network is compiled to WebGPU kernels and runs on seeded random inputs in a process of its own. The
    GPU's own clock times each dispatch; whole runs are timed apart from that. --ablation and --winograd
    measure something else instead: Tables 1 and 2 of "Speed Is All You Need" (arXiv 2304.11267) for this GPU.
    """
    from msd.graph.prediction.device import find_device
    from msd.measure.profiling.run import KernelSettings, measure_kernels
    from msd.run.runners.backends.webgpu import BACKEND
    from msd.run.runners.engine import Engine
    from msd.run.runners.runner import Conditions

    if trace and (ablation or winograd):
        raise click.UsageError("--trace shows dispatches, which --ablation and --winograd do not time.")
    if not ablation:
        options.refuse_given(("device",), "without --ablation")
    if not (output or page or trace):
        options.refuse_given(("force",), "without --output, --page and --trace")
    options.require_different(output, page, trace)
    for path in filter(None, (output, page, trace)):
        require_writable(path, force)
    settings = KernelSettings(
        precision=precision,
        gpu_api=gpu_api,
        repeats=repeats,
        ablation=ablation,
        winograd=winograd,
        device=find_device(device),
    )
    command = shlex.join(["msd", *sys.argv[1:]])
    with networks(bundle, components, size) as files:
        say_adapter(Engine(BACKEND, Conditions(gpu_api=gpu_api)))
        with (
            shown_if_stopped(partial(_print_tables, console(WIDTH, stderr=True))) as on_measured,
            benchmark_progress(console(0, stderr=True)) as on_progress,
        ):
            report = measure_kernels(files, settings, command, on_progress, on_measured)
    _print(report, as_json)
    _write(report, output, page, trace, force)


@contextmanager
def networks(
    bundle: Path, components: tuple[str, ...], size: ImageSize | None
) -> Iterator[list[NetworkFile]]:
    """Yield the files to measure; says which of a bundle's are for the CPU and are left out."""
    from msd.bundle import open_bundle
    from msd.conversion.sizes.pick import one_size
    from msd.measure.profiling.measure import NetworkFile

    if not bundle.is_dir():
        if components or size:
            raise click.UsageError("--component and --size choose from a bundle, not from a file.")
        _say_signature(bundle)
        yield [NetworkFile(bundle.stem, bundle)]
        return
    with one_size(open_bundle(bundle), size) as opened:
        names = components or [n for n in opened.family.files if n in opened.manifest.components]
        for_gpu = [name for name in names if opened.component(name).runs_on == "gpu"]
        for name in names:
            if name not in for_gpu:
                say(f"{name} is for the CPU and is left out", err=True)
        if not for_gpu:
            raise Failure(f"{bundle} has no network for the GPU among {', '.join(names)}")
        images = opened.manifest.configuration.all_sizes[0]
        yield [
            NetworkFile(name, opened.path(name), bundle / opened.component(name).file, images)
            for name in for_gpu
        ]


def _say_signature(file: Path) -> None:
    """Say of a file with several signatures, one for each size of images, which is measured."""
    from msd.graph import tflite

    keys = [signature.key for graph in tflite.read(file).graphs for signature in graph.signatures]
    if len(keys) > 1:
        say(f"{file} has several signatures: {keys[0]} is measured, {listed(keys[1:])} left out", err=True)


def _write(
    report: KernelReport, output: Path | None, page: Path | None, trace: Path | None, force: bool
) -> None:
    """Write what is asked for; what cannot be written keeps none of the others from it."""
    from msd.files.atomic import atomic_write
    from msd.measure.profiling.html import to_html
    from msd.measure.profiling.result import dump_kernel_report
    from msd.measure.profiling.table import to_markdown
    from msd.measure.profiling.trace import to_trace

    texts: dict[Path | None, Callable[[KernelReport], str]] = {
        output: to_markdown if output and options.is_markdown(output) else dump_kernel_report,
        page: to_html,
        trace: lambda report: to_trace(report.networks),
    }
    problems = list[str]()
    for path, text in texts.items():
        try:
            if path:
                with atomic_write(path, force) as temporary:
                    temporary.write_text(text(report), "utf-8")
        except (OutputUnwritable, OutputExists) as problem:
            problems.append(str(problem))
    if problems:
        raise Failure("; ".join(problems))


def _print(report: KernelReport, as_json: bool) -> None:
    from msd.measure.profiling.result import dump_kernel_report

    if as_json:
        say_json(dump_kernel_report(report))
    else:
        _print_tables(console(WIDTH), report)


def _print_tables(out: Console, report: KernelReport) -> None:
    from rich import box
    from rich.table import Table

    from msd.measure.profiling.table import remarks, tables

    for table in tables(report):
        styled = Table(title=escape(table.title), title_justify="left", box=box.SIMPLE)
        for number, column in enumerate(table.columns):
            styled.add_column(escape(column), justify="right" if number else "left")
        for row in table.rows:
            styled.add_row(*map(escape, row))
        print_table(out, styled)
    for remark in remarks(report):
        out.print(escape(f"{remark}."))

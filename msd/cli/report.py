"""`delegation-report`: what the real GPU delegate takes of .tflite files, and whether its numbers hold."""

from __future__ import annotations

import json
import logging
import math
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from msd.bundle import COMPONENTS, MANIFEST, open_bundle
from msd.cli.command import Command
from msd.errors import BadBundle

if TYPE_CHECKING:
    from msd.delegate import Adapter, Rejection, Verdict
    from msd.delegate.worker import Precision

NOT_DELEGATED = 3
WIDTH = 120
"""Columns to print where there is no terminal to ask."""

EXAMPLE = """\b
Examples:
  delegation-report unet.tflite
  delegation-report --json OUT > report.json
  delegation-report --setup
"""


class SayOnStderr(logging.Handler):
    """Prints what a long preparation is doing."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(escape(record.getMessage()), style="dim", highlight=False)


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16"]),
    default="fp32",
    show_default=True,
    help="What the GPU computes in, where it can.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    metavar="SECONDS",
    help="The time each compilation and each run may take.  [default: 600]",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GB",
    help="The memory each process may take.  [default: 80 % of what is free]",
)
@click.option(
    "--setup", is_flag=True, help="Find or fetch a Vulkan adapter, check that it works, and say which."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every output, the times and the native log.")
def report(
    paths: tuple[Path, ...],
    as_json: bool,
    precision: Precision,
    timeout: float,
    memory: float | None,
    setup: bool,
    verbose: bool,
) -> None:
    """Ask LiteRT's real GPU delegate which operations of each PATH it takes.

    PATH is a .tflite file, or a folder that msd-convert wrote, with or without its manifest. Each file is
    compiled and run in a process of its own, and its numbers are compared with the CPU's. Without a
    GPU it runs on SwiftShader, which is fetched once where it is not installed.

    Exit code 0: every operation of every file runs on the GPU, in one partition, with the CPU's numbers. 3:
    not so. 1: it could not be found out. 2: wrong usage.
    """
    if not paths and not setup:
        raise click.UsageError("Name a .tflite file or a folder of them, or ask for --setup.")
    talk = Console(stderr=True)
    files = _files(paths)
    adapter = _adapter(talk)
    verdicts = [_judge(file, precision, timeout, memory, adapter, talk) for file in files]
    if as_json:
        click.echo(json.dumps(_json(adapter, verdicts), indent=2))
    else:
        _print(adapter, verdicts, setup, verbose)
    if not all(verdict.ok for verdict in verdicts):
        raise SystemExit(NOT_DELEGATED)


def _files(paths: tuple[Path, ...]) -> list[Path]:
    """Return the .tflite files that `paths` name, each one readable; raises BadBundle and BadModelFile."""
    from msd import tflite

    files = [file for path in paths for file in (_components(path) if path.is_dir() else [path])]
    for file in files:
        tflite.read(file)
    return files


def _components(folder: Path) -> list[Path]:
    """Return the files that the folder's manifest lists; all three components where it has none."""
    if (folder / MANIFEST).exists():
        bundle = open_bundle(folder)
        return [bundle.path(component) for component in bundle.manifest.components]
    files = [folder / f"{component}.tflite" for component in COMPONENTS]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise BadBundle(
            f"{folder} has neither {MANIFEST} nor {', '.join(missing)}; name the files to judge instead"
        )
    return files


def _adapter(talk: Console) -> Adapter:
    from msd.delegate import find

    logger, handler = logging.getLogger("msd.delegate"), SayOnStderr(talk)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with talk.status("Looking for a Vulkan adapter …"):
            return find()
    finally:
        logger.removeHandler(handler)


def _judge(
    file: Path, precision: Precision, timeout: float, memory: float | None, adapter: Adapter, talk: Console
) -> Verdict:
    from msd.delegate import judge

    with talk.status(f"{escape(file.name)}: on {escape(adapter.name)} …"):
        limit = None if memory is None else int(memory * 1e9)
        return judge(file, precision=precision, timeout=timeout, memory=limit, adapter=adapter)


def _json(adapter: Adapter, verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        "ok": all(verdict.ok for verdict in verdicts),
        "litert": version("ai-edge-litert"),
        "adapter": {
            "name": adapter.name,
            "type": adapter.type,
            "origin": adapter.origin,
            "half_floats": adapter.half_floats,
            "passed_over": list(adapter.passed_over),
        },
        "files": [verdict.to_json() for verdict in verdicts],
    }


def _print(adapter: Adapter, verdicts: list[Verdict], setup: bool, verbose: bool) -> None:
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, WIDTH)
    title = f"LiteRT {version('ai-edge-litert')} GPU delegate on [bold]{escape(adapter.name)}[/]"
    words = ["in software" if adapter.software else adapter.type, *{v.precision for v in verdicts}]
    out.print(f"{title}, {escape(', '.join(words))}")
    for reason in adapter.passed_over:
        out.print(f"Passed over: {escape(reason)}")
    if setup or verbose:
        out.print(f"Driver: {escape(adapter.origin)}")
    if setup:
        out.print("[green]The delegate works here.[/]")
    if verdicts:
        _print_verdicts(out, verdicts, verbose)


def _print_verdicts(out: Console, verdicts: list[Verdict], verbose: bool) -> None:
    out.print(_table(verdicts))
    out.print()
    for verdict in verdicts:
        if verbose or not verdict.ok:
            _details(out, verdict, verbose)
    for note in sorted({verdict.precision_note for verdict in verdicts if verdict.precision_note}):
        out.print(f"Note: {escape(note)}.")
    good = sum(verdict.ok for verdict in verdicts)
    color = "green" if good == len(verdicts) else "red"
    noun = "file runs" if len(verdicts) == 1 else "files run"
    out.print(f"[{color}]{good} of {len(verdicts)} {noun} whole on the GPU with the CPU's numbers.[/]")


def _table(verdicts: list[Verdict]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("", "file", "verdict", "PSNR to CPU"):
        table.add_column(title, no_wrap=title in ("", "verdict"))
    for verdict in verdicts:
        mark = "[green]✔[/]" if verdict.ok else "[red]✘[/]"
        number = _decibel(verdict.psnr) if verdict.distances else "–"
        table.add_row(mark, escape(verdict.file.name), _summary(verdict), number)
    return table


def _decibel(psnr: float) -> str:
    if math.isinf(psnr):
        return "∞ dB" if psnr > 0 else "−∞ dB"
    return "undefined" if math.isnan(psnr) else f"{psnr:.1f} dB"


def _summary(verdict: Verdict) -> str:
    if verdict.crashed:
        return f"lost: {verdict.operations} operations undecided"
    words = f"{verdict.delegated} of {verdict.operations} operations on GPU"
    if not verdict.partitions:
        return words
    return f"{words}, {verdict.partitions} partition{'s' if verdict.partitions > 1 else ''}"


def _details(out: Console, verdict: Verdict, verbose: bool) -> None:
    """Print what is wrong with a file; with `verbose`, also what is right."""
    out.print(f"[bold]{escape(str(verdict.file))}[/]")
    for objection in verdict.objections:
        out.print(f"  [red]✘[/] {escape(objection)}")
    if verdict.rejected:
        out.print("  rejected, in the delegate's own words (what these cut off stays behind too):")
        out.print(_rejections(verdict))
    for note in verdict.notes:
        out.print(f"  note: {escape(note)}", style="dim")
    if verbose:
        _everything(out, verdict)
    out.print()


def _rejections(verdict: Verdict) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    for rejection in verdict.rejected:
        words = f"{escape(rejection.reason)} {escape(_place(rejection))}".strip()
        table.add_row(f"    {escape(rejection.kind)}", _count(rejection), words)
    return table


def _count(rejection: Rejection) -> str:
    """Say how many operations are meant, as far as that is known."""
    if not rejection.of:
        return "made at run time"
    return f"{len(rejection.operations) if rejection.exact else 'some'} of {rejection.of}"


def _place(rejection: Rejection) -> str:
    """Say where to look: the first operation and the tensor that the delegate named."""
    if not rejection.exact:
        return ""
    tensor = f", tensor {rejection.tensors[0]}" if rejection.tensors else ""
    first = "first " if len(rejection.operations) > 1 else ""
    return f"({first}#{rejection.operations[0]}{tensor})"


def _everything(out: Console, verdict: Verdict) -> None:
    for found in verdict.distances:
        of = f"max difference {found.max_difference:.2g}, values up to {found.max_reference:.3g}"
        out.print(f"  {escape(found.output)}: {_decibel(found.psnr)} from the CPU's, {of}")
    if verdict.compile_seconds is not None and verdict.run_seconds is not None:
        out.print(f"  compiled in {verdict.compile_seconds:.2f} s, run in {verdict.run_seconds:.2f} s")
    out.print("  native log:", style="dim")
    for line in verdict.log:
        out.print(f"    {escape(line)}", style="dim", soft_wrap=True)

"""`delegation-report`: which operations of .tflite files GPU delegates accept, predicted and real."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

import msd
from msd.bundle import MANIFEST, RunsOn, open_bundle
from msd.cli.command import Command, refuse_existing
from msd.errors import BadBundle
from msd.families import Family, families
from msd.prediction.registry import delegates

if TYPE_CHECKING:
    from msd.judging import Verdict
    from msd.report.compare import Change
    from msd.report.report import Audit, FileReport, Report
    from msd.runners.adapter import VulkanAdapter

Files = Sequence[tuple[Path, RunsOn]]
"""What to judge, but for what is for the CPU, which is only listed."""

CONDITION_FAILED = 3
WIDTH = 120
"""Columns to print where there is no terminal to ask."""

CONDITIONS = ("rejected", "wrong", "unknown", "note", "run", "disagreement", "worse", "audit")
DEFAULT_CONDITIONS = ("rejected", "wrong", "unknown", "run", "audit")

EXAMPLE = """\b
Examples:
  delegation-report unet.tflite
  delegation-report OUT --no-run --delegate litert-gpu,tflite-gpu --device adreno-740
  delegation-report OUT --format html -o report.html
  delegation-report OUT --diff before.json --fail-on worse,rejected
  delegation-report --setup
"""


class SayOnStderr(logging.Handler):
    """Prints what a long preparation is doing."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(escape(record.getMessage()), style="dim", highlight=False)


def _words(among: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """Return what reads several words with commas between them, each of which must be `among` those known."""

    def read(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(filter(None, value.split(","))))
        if unknown := [word for word in words if word not in among]:
            raise click.BadParameter(f"{', '.join(unknown)} is not among {', '.join(among)}")
        return words

    return read


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
@click.option(
    "--delegate",
    "delegates",
    callback=_words(tuple(delegates())),
    default="litert-gpu",
    show_default=True,
    help=f"Predict for {', '.join(f'{d.name} ({d.title})' for d in delegates().values())}, or both.",
)
@click.option(
    "--device",
    default="adreno-740",
    show_default=True,
    help="Apply the limits of this device: a name or a TOML file.",
)
@click.option("--run/--no-run", default=True, show_default=True, help="Also run the real LiteRT delegate.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "markdown", "html", "model-explorer"]),
    default="table",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace the output file.")
@click.option(
    "--fail-on",
    callback=_words(CONDITIONS),
    default=",".join(DEFAULT_CONDITIONS),
    show_default=True,
    help="Findings that end with exit code 3.",
)
@click.option(
    "--diff",
    "before",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    metavar="OTHER.json",
    help="Show findings gained and lost since that report.",
)
@click.option("--audit-fp16", "audit", is_flag=True, help="Find float16 overflows, measured on the CPU.")
@click.option(
    "--inputs",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE.npz",
    help="Inputs for the audit, by name.  [default: a bundle's own during generation; else random]",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16"]),
    default="fp32",
    show_default=True,
    help="Precision of the real delegate's arithmetic, where it can choose.",
)
@click.option(
    "--pieces",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Judge each file in this many pieces, if it is too large for the delegate on this machine.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    metavar="SECONDS",
    help="Time limit of each compilation and each run.  [default: 600]",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GB",
    help="Memory limit of each process.  [default: 80 % of the free memory]",
)
@click.option(
    "--setup", is_flag=True, help="Find or fetch a Vulkan adapter, check that it works, and name it."
)
@click.option("-v", "--verbose", is_flag=True, help="Show notes, sources, outputs, times and the native log.")
def report(paths: tuple[Path, ...], setup: bool, **options: Any) -> None:
    """Show which operations of each PATH a GPU delegate accepts, and why it rejects the others.

    PATH is a .tflite file, or a folder that msd-convert wrote, with or without its manifest. Rules predict
    the verdict of each delegate on a device. The real LiteRT delegate then compiles and runs each file in a
    process of its own, and its numbers are compared with the CPU's; without a GPU it runs on SwiftShader,
    which is fetched once where it is not installed.

    Exit code 0: no finding that --fail-on names. 3: at least one. 1: the check was impossible. 2: wrong
    usage.
    """
    from msd.report.compare import compare

    files = _files(paths)
    _require_sense(files, setup, options)
    if options["output"]:
        refuse_existing(options["output"], options["force"])
    before, talk = _loaded(options["before"]), Console(stderr=True)
    made, adapter, verdicts = _made(paths, files, setup, options, talk)
    changes = compare(before, made) if before else []
    made = replace(made, failed=_failing(made, verdicts, changes, options["fail_on"]))
    form = "json" if options["as_json"] else options["form"]
    if form == "table":
        _print(made, adapter, verdicts, setup, options["verbose"])
        if before:
            _print_changes(before, made, changes)
    else:
        _write(_rendered(made, form), options["output"], options["force"])
    if made.failed:
        talk.print(f"Exit code 3 for: {', '.join(made.failed)}.", style="red")
        raise SystemExit(CONDITION_FAILED)


def _loaded(path: Path | None) -> Report | None:
    """Return the report to compare with, before anything that takes minutes."""
    from msd.report.report import load_report

    return load_report(path) if path else None


def _require_sense(files: Files, setup: bool, options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if not files and not setup:
        raise click.UsageError("Name a .tflite file or a folder of them, or ask for --setup.")
    if options["form"] == "model-explorer" and (len(files) != 1 or len(options["delegates"]) != 1):
        raise click.UsageError("--format model-explorer describes one file and one delegate at a time.")
    if options["output"] and options["form"] == "table" and not options["as_json"]:
        raise click.UsageError("--output is for the other formats; choose one with --format.")
    if options["inputs"] and not options["audit"]:
        raise click.UsageError("--inputs are for --audit-fp16.")
    if "worse" in options["fail_on"] and not options["before"]:
        raise click.UsageError("--fail-on worse compares with --diff OTHER.json.")


def _made(
    paths: Sequence[Path], files: Files, setup: bool, options: dict[str, Any], talk: Console
) -> tuple[Report, VulkanAdapter | None, list[Verdict]]:
    """Return the report, and what the real delegate said itself."""
    from msd.judging.pieces import combined
    from msd.prediction.device import find_device
    from msd.report.examine import disagreements, examine
    from msd.report.report import Report

    device = find_device(options["device"])
    reports = [examine(file, options["delegates"], device, runs_on) for file, runs_on in files]
    adapter, verdicts = None, []
    if options["run"] or setup:
        adapter = _adapter(talk)
        judged = [_judge(file, options, adapter, talk) if on == "gpu" else [] for file, on in files]
        verdicts = [verdict for each in judged for verdict in each]
        reports = [replace(r, run=combined(v)) if v else r for r, v in zip(reports, judged, strict=True)]
        reports = [replace(r, disagreements=disagreements(r)) for r in reports]
        reports = [_witnessed(r, options["timeout"], talk) if r.run else r for r in reports]
    if options["audit"]:
        judged_files = [file for file, on in files if on == "gpu"]
        audits = _audits(paths, judged_files, options["inputs"], talk)
        reports = [replace(r, audit=next(audits)) if r.runs_on == "gpu" else r for r in reports]
    return Report(msd.__version__, tuple(reports), _described(adapter)), adapter, verdicts


def _witnessed(report: FileReport, timeout: float, talk: Console) -> FileReport:
    from msd.report.witness import witnesses

    with talk.status(f"{escape(Path(report.file).name)}: what others say …"):
        return replace(report, witnesses=witnesses(Path(report.file), timeout))


def _audits(
    paths: Sequence[Path], files: Sequence[Path], inputs: Sequence[Path], talk: Console
) -> Iterator[Audit]:
    """Yield each file's audit; a bundle draws once for all of its files."""
    from msd.report.float16 import audited, draw

    bundles = [path for path in paths if (path / MANIFEST).is_file() and not inputs]
    with talk.status("Ranges on the CPU …") as status:
        drawn = {bundle: draw(bundle) for bundle in bundles}
        for file in files:
            status.update(f"{escape(file.name)}: ranges on the CPU …")
            yield audited(file, drawn.get(file.parent), inputs)


def _described(adapter: VulkanAdapter | None) -> dict[str, Any] | None:
    if adapter is None:
        return None
    return {
        "litert": version("ai-edge-litert"),
        "name": adapter.name,
        "type": adapter.type,
        "origin": adapter.origin,
        "half_floats": adapter.half_floats,
        "passed_over": list(adapter.passed_over),
    }


def _print(
    made: Report, adapter: VulkanAdapter | None, verdicts: list[Verdict], setup: bool, verbose: bool
) -> None:
    from msd.cli.prediction_view import print_audits, print_predictions
    from msd.cli.verdict_view import print_verdicts

    out = _console()
    if made.files:
        print_predictions(out, made, verbose)
    print_audits(out, made)
    if adapter is not None:
        print_verdicts(out, adapter, verdicts, setup, verbose)


def _print_changes(before: Report, made: Report, changes: Sequence[Change]) -> None:
    from msd.cli.prediction_view import print_changes
    from msd.report.compare import missing

    print_changes(_console(), changes, missing(before, made))


def _console() -> Console:
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, WIDTH)
    return out


def _rendered(made: Report, form: str) -> str:
    from msd.report.explorer import to_explorer
    from msd.report.html import to_html
    from msd.report.markdown import to_markdown
    from msd.report.report import dump_report

    if form == "model-explorer":
        return to_explorer(made.files[0], made.files[0].predictions[0])
    return {"json": dump_report, "markdown": to_markdown, "html": to_html}[form](made)


def _write(text: str, output: Path | None, force: bool) -> None:
    from msd.files.atomic import atomic_write

    if output is None:
        click.echo(text, nl=False)
        return
    refuse_existing(output, force)  # it may have come while the delegate worked
    with atomic_write(output) as temporary:
        temporary.write_text(text, "utf-8")


def _failing(
    made: Report, verdicts: Sequence[Verdict], changes: Sequence[Change], asked: Sequence[str]
) -> tuple[str, ...]:
    """Return which of the conditions that were asked for do not hold."""
    from msd.report.report import SEVERITIES

    predictions = [p for file in made.files for p in file.predictions]
    found = {severity: any(p.count(severity) for p in predictions) for severity in SEVERITIES}
    found["run"] = not all(verdict.ok for verdict in verdicts)
    found["disagreement"] = any(file.disagreements for file in made.files)
    found["audit"] = any(
        r.what == "overflow" for file in made.files if file.audit for r in file.audit.out_of_range
    )
    found["worse"] = any(change.worse for change in changes)
    return tuple(condition for condition in asked if found[condition])


def _files(paths: tuple[Path, ...]) -> Files:
    """Return the .tflite files that `paths` name; raises BadBundle."""
    found: list[tuple[Path, RunsOn]] = []
    for path in paths:
        found += _components(path) if path.is_dir() else [(path, "gpu")]
    return found


def _components(folder: Path) -> Files:
    """Return the files that the folder's manifest lists; those of a whole family where it has none."""
    if (folder / MANIFEST).exists():
        parts = open_bundle(folder).manifest.components.values()
        return [(folder / part.file, part.runs_on) for part in parts]
    missing = {family: _missing(folder, family) for family in families().values()}
    family = min(missing, key=lambda family: len(missing[family]))
    if missing[family]:
        lacking = ", ".join(missing[family])
        raise BadBundle(f"{folder} has neither {MANIFEST} nor {lacking}; name the files to judge instead")
    files: list[tuple[str, RunsOn]] = [(n, "cpu" if n in family.lookups else "gpu") for n in family.files]
    places = [(folder / f"{name}.tflite", runs_on) for name, runs_on in files]
    return [(path, runs_on) for path, runs_on in places if path.is_file()]


def _missing(folder: Path, family: Family) -> list[str]:
    """Return the files of a family that a folder lacks."""
    names = [f"{component}.tflite" for component in family.required]
    return [name for name in names if not (folder / name).is_file()]


def _adapter(talk: Console) -> VulkanAdapter:
    from msd.runners.adapter import find

    logger, handler = logging.getLogger("msd.runners"), SayOnStderr(talk)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with talk.status("Looking for a Vulkan adapter …"):
            return find()
    finally:
        logger.removeHandler(handler)


def _judge(file: Path, options: dict[str, Any], adapter: VulkanAdapter, talk: Console) -> list[Verdict]:
    from msd.judging import judge
    from msd.judging.pieces import judge_pieces

    memory, count = options["memory"], options["pieces"]
    how: dict[str, Any] = {
        "precision": options["precision"],
        "timeout": options["timeout"],
        "memory": None if memory is None else int(memory * 1e9),
        "adapter": adapter,
    }
    with talk.status(f"{escape(file.name)}: on {escape(adapter.name)} …"):
        return [judge(file, **how)] if count == 1 else list(judge_pieces(file, count, **how))

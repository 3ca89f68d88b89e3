"""`delegation-report`: show the operations of .tflite files that GPU delegates accept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.console import Console

from msd.cli import completion, options
from msd.cli.command import CHECK_FAILED, Command, console
from msd.cli.options import FILE
from msd.cli.plain import plain_json, say
from msd.cli.report_files import Files, Shapes, files_of
from msd.cli.report_options import fail_on_option, parts, refuse_useless, shapes_by_name, words
from msd.cli.report_run import Findings, ReportRequest, collect_findings
from msd.cli.stopped import shown_if_stopped
from msd.files.targets import require_writable
from msd.graph.prediction import registry

if TYPE_CHECKING:
    from msd.measure.judging.browser import BrowserVerdict
    from msd.measure.report.compare import Change
    from msd.measure.report.report import Report
    from msd.run.runners.runner import Precision

WIDTH = 120
"""The columns to print without a terminal."""

EXAMPLE = """\b
Examples:
  delegation-report unet.tflite
  delegation-report OUT --no-run --delegate litert-gpu,tflite-gpu --device adreno-740
  delegation-report OUT --format html -o report.html
  delegation-report OUT --diff before.json --fail-on worse,rejected
  delegation-report OUT --litert 2.1.5,nightly
  delegation-report OUT --compare-litert 2.1.5 2.3.0 --no-run
  delegation-report OUT --from verdict.json
  delegation-report --setup
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
@click.option(
    "--delegate",
    "delegates",
    callback=words(tuple(registry.delegates())),
    default="litert-gpu",
    metavar="NAME,…",
    shell_complete=completion.completes_several(registry.delegates),
    show_default=True,
    help="Predict for these, with a comma between two: "
    f"{', '.join(f'{d.name} ({d.title})' for d in registry.delegates().values())}.",
)
@click.option(
    "--device",
    shell_complete=completion.completes(completion.devices),
    default="adreno-740",
    metavar="NAME|FILE",
    show_default=True,
    help="Apply the limits of this GPU: a name, a phone such as 'Pixel 9', or a TOML file.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    callback=shapes_by_name,
    metavar="NAME=1,64,64,4",
    help="Judge files whose inputs leave sizes open at this shape of the input NAME.",
)
@click.option(
    "--litert",
    callback=parts,
    default="",
    metavar="VERSION",
    help="Ask LiteRT of this version in place of the installed one: 2.1.5, nightly, a virtual environment's"
    " folder, or several with commas. Each is installed once, into the cache.",
)
@click.option(
    "--compare-litert",
    "compared",
    nargs=2,
    metavar="OLD NEW",
    help="Show what changes between two versions of LiteRT.",
)
@click.option(
    "--tflite",
    metavar="VERSION",
    help="Predict tflite-gpu by TensorFlow Lite of this release, from 2.14 on, or LiteRT's: litert-1.4.1.",
)
@click.option("--run/--no-run", default=True, show_default=True, help="Also run the real LiteRT delegate.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "markdown", "html", "model-explorer"]),
    default="table",
    show_default=True,
    help="How to write the report.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", type=FILE, help="Write to this file.")
@options.force("Replace the output file.")
@fail_on_option
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
    "--from",
    "measured",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    metavar="VERDICT.json",
    help="In place of the real delegate, what an exported page measured on its device.",
)
@click.option(
    "--pieces",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Judge each file in this many pieces, if it is too large for the delegate on this machine.",
)
@click.option(
    "--timeout",
    type=options.Number(0, options.DAY, open=True),
    default=600.0,
    metavar="SECONDS",
    help="Time limit of each compilation and each run.  [default: 600]",
)
@click.option(
    "--memory",
    type=options.Number(0, 1e6, open=True),
    metavar="GB",
    help="Memory limit of each process.  [default: 80 % of the free memory]",
)
@click.option(
    "--setup", is_flag=True, help="Find or fetch a Vulkan adapter, check that it works, and name it."
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show all: predictions, traffic, notes, sources, times, the native log.",
)
@options.version
def report(
    paths: tuple[Path, ...],
    delegates: tuple[str, ...],
    device: str,
    shapes: Shapes,
    litert: tuple[str, ...],
    compared: tuple[str, str] | None,
    tflite: str | None,
    run: bool,
    form: str,
    as_json: bool,
    output: Path | None,
    force: bool,
    fail_on: tuple[str, ...],
    before: Path | None,
    audit: bool,
    inputs: tuple[Path, ...],
    precision: Precision,
    measured: Path | None,
    pieces: int,
    timeout: float,
    memory: float | None,
    setup: bool,
    verbose: bool,
) -> None:
    """Show which operations of each PATH a GPU delegate accepts, and why it rejects the others.

    PATH is a .tflite file, or a folder that msd-convert wrote, with or without its manifest. Rules predict
    the verdict of each delegate on a device. The real LiteRT delegate then compiles and runs each file in a
    process of its own, and its numbers are compared with the CPU's; without a GPU it runs on SwiftShader,
    which is fetched once where it is not installed.

    Exit code 0: no finding that --fail-on names. 3: at least one. 1: the check was impossible. 2: wrong
    usage.
    """
    files, form = files_of(paths), "json" if as_json else form
    if tflite and "tflite-gpu" not in delegates:
        raise click.UsageError("--tflite is for --delegate tflite-gpu.")
    _require_compatible(files, delegates, form, output, setup)
    _require_one_comparison(litert, compared, before, measured)
    if inputs and not audit:
        raise click.UsageError("--inputs are for --audit-fp16.")
    _require_judged(fail_on, run, audit, bool(before or compared))
    if measured and (not run or setup):
        raise click.UsageError("--from takes the place of a run; leave out --no-run and --setup.")
    refuse_useless(run or setup, bool(measured), bool(output))
    if output:
        require_writable(output, force)
    stderr, earlier = console(0, stderr=True), _load_earlier(before)
    request = ReportRequest(
        paths=paths,
        files=files,
        delegates=delegates,
        device=device,
        run=run,
        setup=setup,
        precision=precision,
        measured=_load_measured(measured),
        pieces=pieces,
        timeout=timeout,
        memory=None if memory is None else int(memory * 1e9),
        audit=audit,
        inputs=inputs,
        shapes=shapes,
        litert=compared[1:] if compared else litert,
        tflite=tflite,
    )
    requests = [replace(request, litert=compared[:1]), request] if compared else [request]
    *before_it, findings = _collect_all(requests, stderr, verbose)
    earlier = before_it[0].report if before_it else earlier
    failed = _show(findings, earlier, form, output, force, fail_on, setup, verbose)
    if failed:
        stderr.print(f"Exit code 3 for: {', '.join(failed)}.", style="red")
        raise SystemExit(CHECK_FAILED)


def _collect_all(requests: Sequence[ReportRequest], stderr: Console, verbose: bool) -> list[Findings]:
    """Return the findings for each request; what something ends is printed on stderr as far as it came."""

    def show(so_far: list[Findings]) -> None:
        for findings in so_far:
            _print(findings, setup=False, verbose=verbose, out=console(WIDTH, stderr=True))

    done: list[Findings] = []
    with shown_if_stopped(show) as keep:
        for request in requests:
            done.append(collect_findings(request, stderr, lambda found: keep([*done, found])))
    return done


def _show(
    findings: Findings,
    earlier: Report | None,
    form: str,
    output: Path | None,
    force: bool,
    fail_on: tuple[str, ...],
    setup: bool,
    verbose: bool,
) -> tuple[str, ...]:
    """Print the report, and write it in the format `form`; returns the conditions of `fail_on` that it meets.

    Where a file gets the report, tables go to stderr before: one that cannot be written loses nothing.
    """
    from msd.measure.report.compare import compare
    from msd.measure.report.conditions import conditions_met

    failed = conditions_met(findings.report, findings.verdicts, earlier, fail_on)
    report = replace(findings.report, failed=failed)
    out = console(WIDTH, stderr=form != "table")
    if form == "table" or output:
        _print(replace(findings, report=report), setup, verbose, out)
    if earlier:
        _print_changes(earlier, report, compare(earlier, report), out)
    if form != "table":
        _write(_render(report, form), output, force)
    return failed


def _load_earlier(path: Path | None) -> Report | None:
    """Return the report to compare with; an invalid one fails before minutes of work."""
    from msd.measure.report.report import load_report

    return load_report(path) if path else None


def _load_measured(path: Path | None) -> BrowserVerdict | None:
    from msd.measure.judging.browser import load_browser_verdict

    return load_browser_verdict(path) if path else None


def _require_compatible(
    files: Files, delegates: Sequence[str], form: str, output: Path | None, setup: bool
) -> None:
    """Refuse options that do not go together."""
    if not files and not setup:
        raise click.UsageError("Name a .tflite file or a folder of them, or ask for --setup.")
    if form == "model-explorer" and (len(files) != 1 or len(delegates) != 1):
        raise click.UsageError("--format model-explorer describes one file and one delegate at a time.")
    if output and form == "table":
        raise click.UsageError("--output is for the other formats; choose one with --format.")


def _require_one_comparison(
    litert: tuple[str, ...], compared: tuple[str, str] | None, before: Path | None, measured: Path | None
) -> None:
    """Refuse options that each name what to ask, or what to compare with."""
    if compared and (litert or before):
        raise click.UsageError("--compare-litert takes the place of --litert and --diff; leave them out.")
    if measured and (litert or compared):
        raise click.UsageError(
            "--from is a browser's verdict; --litert and --compare-litert ask LiteRT here."
        )


def _require_judged(fail_on: tuple[str, ...], run: bool, audit: bool, compared: bool) -> None:
    """Refuse conditions that were asked for and cannot be met, since nothing looks for them."""
    source = click.get_current_context().get_parameter_source("fail_on")
    real = "asks the real delegate, which --no-run leaves out"
    for condition, is_judged, why in (
        ("worse", compared, "compares with --diff OTHER.json, or by --compare-litert"),
        ("run", run, real),
        ("disagreement", run, real),
        ("audit", audit, "is for --audit-fp16"),
    ):
        if condition in fail_on and not is_judged and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--fail-on {condition} {why}.")


def _print(findings: Findings, setup: bool, verbose: bool, out: Console) -> None:
    from msd.cli.fault_view import print_driver_faults, print_reported
    from msd.cli.prediction_view import print_audits, print_predictions
    from msd.cli.traffic_view import print_traffic
    from msd.cli.verdict_view import print_browser_verdicts, print_undone, print_verdicts

    if findings.report.files:
        if verbose or not findings.are_as_predicted:
            print_predictions(out, findings.report, verbose)
        else:
            print_reported(out, findings.report)
        if verbose:
            print_traffic(out, findings.report)
            print_driver_faults(out, findings.report)
        else:
            also = "predictions, " if findings.are_as_predicted else ""
            say(f"-v adds {also}notes, what a run reads and writes, and reports on this GPU", err=True)
    print_audits(out, findings.report)
    if findings.measured is not None:
        print_browser_verdicts(out, findings.measured, findings.verdicts, verbose)
    if findings.adapter is not None:
        print_verdicts(out, findings.adapter, findings.verdicts, setup, verbose)
    print_undone(out, findings.report, {"judged": findings.unjudged, "audited": findings.unaudited})


def _print_changes(before: Report, after: Report, changes: Sequence[Change], out: Console) -> None:
    from msd.cli.prediction_view import print_changes
    from msd.cli.verdict_view import print_runs_compared
    from msd.measure.report.compare import missing

    print_changes(out, changes, missing(before, after))
    print_runs_compared(out, before, after)


def _render(report: Report, form: str) -> str:
    from msd.measure.report.explorer import to_explorer
    from msd.measure.report.html import to_html
    from msd.measure.report.markdown import to_markdown
    from msd.measure.report.report import dump_report

    if form == "model-explorer":
        return to_explorer(report.files[0], report.files[0].predictions[0])
    return {"json": dump_report, "markdown": to_markdown, "html": to_html}[form](report)


def _write(text: str, output: Path | None, force: bool) -> None:
    from msd.files.atomic import atomic_write

    if output is None:
        click.echo(plain_json(text), nl=False)
        return
    with atomic_write(output, force) as temporary:
        temporary.write_text(text, "utf-8")
    say(f"wrote {output}", err=True)

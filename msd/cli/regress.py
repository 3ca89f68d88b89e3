"""`msd regress`: fail when a model's images are worse than golden ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msd.cli import completion, options
from msd.cli.backend_choice import generating_backend, say_adapter
from msd.cli.command import CHECK_FAILED, Command, console
from msd.cli.options import FILE, FOLDER
from msd.cli.plain import escape, say, say_json
from msd.cli.progress import step_progress
from msd.cli.stopped import shown_if_stopped
from msd.cli.tables import print_table
from msd.files.targets import require_writable
from msd.files.wording import counted

if TYPE_CHECKING:
    from msd.measure.regress.compare import ImageComparison, Result
    from msd.measure.regress.regression import Regression
    from msd.measure.regress.suite import Suite
    from msd.run.runners.runner import Precision
    from msd.run.runtime.pipeline import Pipeline

STOPPED = "the table has the images that were made until then, and nothing is written"
WIDTH = 100
"""The columns to print without a terminal."""

EXAMPLE = """\b
Examples:
  msd regress demo demo-out
  msd regress mine.toml sd21 --update
  msd regress mine.toml sd21 -o report --junit report.xml
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("suite", metavar="SUITE", shell_complete=completion.completes(completion.suites))
@click.argument("bundle", type=FOLDER)
@click.option("--goldens", type=FOLDER, help="The golden images.  [default: beside SUITE, without its .toml]")
@click.option("-o", "--output", type=FOLDER, help="Write index.html, result.json and the new images here.")
@click.option("--junit", type=FILE, metavar="FILE.xml", help="Write the result as JUnit XML.")
@click.option("--update", is_flag=True, help="Replace the goldens by the new images, and print the changes.")
@generating_backend()
@options.precision()
@options.threads()
@options.json_result()
@options.force("Replace an earlier report.")
def regress(
    suite: str,
    bundle: Path,
    goldens: Path | None,
    output: Path | None,
    junit: Path | None,
    update: bool,
    backend: str,
    precision: Precision,
    threads: int | None,
    as_json: bool,
    force: bool,
) -> None:
    """Generate the images of SUITE with BUNDLE, and compare them with golden ones.

    SUITE is a .toml file with prompts and thresholds, or the name of one of configs/suites/. Exit code 0: all
    thresholds hold. 3: at least one is broken. 1: the comparison was impossible. msd docs regress explains
    the measurement.
    """
    from msd.bundle import open_bundle
    from msd.files.packages import require_packages
    from msd.measure.regress.regression import guard
    from msd.measure.regress.suite import find_suite, read_suite
    from msd.run.runtime.pipeline import Pipeline

    if update and (output or junit):
        raise click.UsageError("--update compares nothing: leave out --output and --junit.")
    if not (output or junit):
        options.refuse_given(("force",), "without --output and --junit")
    require_packages("msd regress", "regress", "scikit-image", "imagehash")
    path, opened = find_suite(suite), open_bundle(bundle, verify=True)
    parsed_suite, folder = read_suite(path, opened.manifest.images), goldens or path.with_suffix("")
    _refuse_own_places(path, folder, output, junit)
    _refuse_reports(parsed_suite, output, junit, force)
    pipeline = Pipeline(
        opened,
        backend=backend,
        threads=threads,
        precision=precision,
        scheduler=parsed_suite.drawing.scheduler,
    )
    say_adapter(pipeline.engine)
    if update:
        _update(parsed_suite, pipeline, folder, as_json)
        return
    comparison = guard(parsed_suite, pipeline, folder)
    with shown_if_stopped(_print_images, STOPPED) as on_stopped, step_progress() as on_step:
        regression = comparison.regress(on_step, on_stopped)
    _print_result(regression.result)
    if as_json:
        from msd.files.schema import dump

        say_json(dump(regression.result))
    _write(parsed_suite, regression, output, junit, force)
    if regression.result.broken:
        raise SystemExit(CHECK_FAILED)


def _refuse_own_places(suite: Path, goldens: Path, output: Path | None, junit: Path | None) -> None:
    """Refuse, whatever is to be replaced, the places of what is compared, and one place for two outputs."""
    from msd.measure.regress.report_folder import PAGE, PICTURES, RESULT

    options.require_different(suite, output, junit)
    options.require_different(goldens, output, junit)
    if junit and junit.resolve().parent == goldens.resolve():
        raise click.UsageError(f"--junit {junit} is among the goldens; give another place.")
    if junit and output and any(junit.resolve() == (output / n).resolve() for n in (PAGE, RESULT, PICTURES)):
        raise click.UsageError(f"--junit {junit} is a part of the report; give another name.")


def _refuse_reports(suite: Suite, output: Path | None, junit: Path | None, force: bool) -> None:
    """Refuse existing outputs before generating begins."""
    from msd.measure.regress.report_folder import require_replaceable

    if output:
        require_replaceable(output, suite, force)
    if junit and (junit.parent != output or output.is_dir()):  # the report's folder comes before it
        require_writable(junit, force)


def _update(suite: Suite, pipeline: Pipeline, folder: Path, as_json: bool) -> None:
    from msd.measure.regress.regression import require_updatable, suite_remarks, update

    require_updatable(suite, pipeline, folder)
    with step_progress() as on_step:
        changes = update(suite, pipeline, folder, on_step)
    remarks = suite_remarks(suite, pipeline)
    for remark in remarks:
        say(f"warning: {remark}", err=True)
    for name, change in changes.items():
        say(f"{name}: {change}", err=True)
    count = len(suite.drawing.pictures)
    say(f"{folder}: {counted(count, 'golden')} written", err=True)
    if as_json:
        facts = {"goldens": str(folder), "changes": changes, "remarks": remarks}
        say_json(json.dumps(facts, ensure_ascii=False))


def _write(
    suite: Suite, regression: Regression, output: Path | None, junit: Path | None, force: bool
) -> None:
    from msd.measure.regress.report_folder import write_report

    _refuse_reports(suite, output, junit, force)  # they may have appeared while images were generated
    apart = junit is not None and junit.parent != output
    if junit and apart:  # a report that cannot be written must not take it along
        _write_junit(regression.result, junit, force)
    if output:
        for other in write_report(regression, output):
            if other != junit:
                say(f"warning: {other} stays, of the report that was in {output} before", err=True)
    if junit and not apart:
        _write_junit(regression.result, junit, force)


def _write_junit(result: Result, path: Path, force: bool) -> None:
    from msd.files.atomic import atomic_write
    from msd.measure.regress.junit import to_junit

    with atomic_write(path, force) as temporary:
        temporary.write_text(to_junit(result), "utf-8")


def _print_result(result: Result) -> None:
    _print_images(result)
    summary = f"{escape(result.suite)}: {_summary(result)}"
    console(WIDTH, stderr=True).print(summary, soft_wrap=True)


def _print_images(result: Result) -> None:
    """Print the metrics of each image, worst first, then remarks and broken thresholds, on stderr."""
    from rich.table import Table

    out = console(WIDTH, stderr=True)
    table = Table("image")
    for column in ("PSNR", "SSIM", "hash bits", "attributes"):
        table.add_column(column, justify="right")
    for image in result.pictures:
        table.add_row(*_cells(image), style="red" if image.broken else "")
    print_table(out, table)
    for note in result.notes:
        out.print(escape(note), style="dim")
    for sentence in result.broken:
        out.print(escape(sentence), style="red", soft_wrap=True)


def _cells(image: ImageComparison) -> tuple[str, ...]:
    from msd.measure.regress.compare import decibels

    share = "" if image.attributes is None else f"{image.attributes:.0%}"
    distance = str(image.hash_distance)
    return image.name, decibels(image.psnr_db), f"{image.ssim:.4f}", distance, share


def _summary(result: Result) -> str:
    count, broken = len(result.pictures), len(result.broken)
    outcome = f"{counted(broken, 'threshold')} broken" if broken else "all thresholds hold"
    return f"{counted(count, 'image')} in {result.seconds:.1f} s, {outcome}"

"""`msd export-android` and `msd export-ios`: a converted folder as part of an app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli.command import Command

if TYPE_CHECKING:
    from msd.export.android.export import Plan
    from msd.files.verified_copy import OnProgress
    from msd.report.report import Report

FOLDER = click.Path(path_type=Path, file_okay=False)
DELIVERIES = click.Choice(["asset-pack", "ai-pack", "download", "assets"])
GB = 10**9


def _loaded(path: Path | None) -> Report | None:
    from msd.report.report import load_report

    return load_report(path) if path else None


def _drawing(command: Any) -> Any:
    """Add the options that both commands have."""
    for option in reversed(
        (
            click.argument("bundle", type=FOLDER),
            click.option("-o", "--output", type=FOLDER, required=True, help="The folder to write."),
            click.option(
                "--steps",
                type=click.IntRange(1),
                multiple=True,
                default=(20,),
                show_default=True,
                help="Denoising steps that the app offers; may be repeated, the first is its default.",
            ),
            click.option(
                "--scheduler",
                metavar="NAME",
                help="ddim, dpm++, euler or lcm.  [default: the checkpoint's own, else ddim]",
            ),
            click.option(
                "--guidance",
                type=click.FloatRange(0),
                default=7.5,
                show_default=True,
                help="The app's default; 1 or less: none.",
            ),
            click.option("--licence", metavar="TEXT", help="The licence of the weights."),
            click.option(
                "--report",
                type=click.Path(path_type=Path, dir_okay=False),
                help="A report of these files for the manifest, by delegation-report --format json.",
            ),
            click.option("--force", is_flag=True, help="Replace what is in the folder."),
        )
    ):
        command = option(command)
    return command


@click.command("export-android", cls=Command)
@_drawing
@click.option(
    "--delivery",
    type=DELIVERIES,
    default="asset-pack",
    show_default=True,
    help="How the model reaches a phone.",
)
@click.option(
    "--package", default="com.example.sd", show_default=True, help="The package of the app and of the sample."
)
@click.option(
    "--min-ram",
    type=click.FloatRange(0, min_open=True),
    metavar="GB",
    help="Deliver only to phones with at least this much memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written, as JSON.")
def export_android(
    bundle: Path,
    output: Path,
    min_ram: float | None,
    report: Path | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write modules of an Android project that generates images with the folder BUNDLE.

    They are a library of Kotlin sources, the model in packs within Google Play's limits, a sample app, and a
    README.md of five steps. docs/android.md explains how a model is delivered.

    \b
    Examples:
      msd export-android sd21 -o sd21-android --package com.example.painter --steps 20 --steps 30
      msd export-android demo-out -o demo-android --delivery assets
      msd export-android sd21 -o sd21-android --delivery ai-pack --min-ram 8
    """
    from msd.bundle import open_bundle
    from msd.export.android import export
    from msd.export.android.settings import Settings

    ram = None if min_ram is None else round(min_ram * GB)
    settings = Settings(min_ram=ram, report=_loaded(report), **options)
    with _progress() as on_progress:
        made = export.export_android(open_bundle(bundle), output, settings, force, on_progress)
    _say(made, output, as_json)


@click.command("export-ios", cls=Command)
@_drawing
def export_ios(bundle: Path, output: Path, report: Path | None, force: bool, **options: Any) -> None:
    """Write the folder BUNDLE as resources of an iOS app: the files and a manifest, no Swift code.

    \b
    Example:
      msd export-ios sd21 -o sd21-ios --steps 20 --scheduler dpm++
    """
    from msd.bundle import open_bundle
    from msd.export.android.manifest import describe
    from msd.export.ios import export

    opened = open_bundle(bundle)
    manifest = describe(opened, report=_loaded(report), **options)
    with _progress() as on_progress:
        export.export_ios(opened, output, manifest, force, on_progress)
    click.echo(f"{output}: README.md says how to include it", err=True)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Show a bar on stderr for each file that is copied."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = TextColumn("{task.description:<22}"), BarColumn(), DownloadColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def on_progress(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done)

        yield on_progress


def _say(made: Plan, output: Path, as_json: bool) -> None:
    packs = {pack.folder: list(pack.files) for pack in made.packs}
    if as_json:
        click.echo(json.dumps({"output": str(output), "model": made.manifest.model, "packs": packs}))
        return
    for folder, names in packs.items():
        click.echo(f"{output / folder}: {', '.join(names)}", err=True)
    if made.manifest.weights.licence is None:
        click.echo("the licence of the weights is unknown; --licence puts it into NOTICE", err=True)
    click.echo(f"{output}: README.md says in five steps how to include it", err=True)

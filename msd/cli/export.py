"""`msd export-android` and `msd export-files`: export a converted folder as part of an app."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msd.cli import options
from msd.cli.command import Command
from msd.cli.earlier import keep_earlier
from msd.cli.least_steps import say_least_steps
from msd.cli.plain import say, say_json
from msd.cli.progress import copy_progress

if TYPE_CHECKING:
    from msd.bundle import Bundle, ImageSize
    from msd.export.android.export import ExportPlan
    from msd.export.android.settings import Delivery
    from msd.measure.report.report import Report

DELIVERIES = click.Choice(["asset-pack", "ai-pack", "download", "assets"])


def load_export_report(path: Path | None) -> Report | None:
    from msd.measure.report.report import load_report

    return load_report(path) if path else None


@click.command("export-android", cls=Command)
@options.export
@click.option(
    "--delivery",
    type=DELIVERIES,
    default="asset-pack",
    show_default=True,
    help="How the model reaches a phone.",
)
@click.option("--package", default="com.example.sd", show_default=True, help="The app's package.")
@click.option("--name", default="Stable Diffusion", show_default=True, help="What a phone calls the app.")
@click.option("--app", is_flag=True, help="Write a whole Gradle project, which builds an app.")
@click.option(
    "--expect",
    type=options.FILE,
    metavar="IMAGE.png",
    help="An image of msd generate, which a test generates again on a phone.",
)
@click.option(
    "--min-ram",
    type=options.Number(0, 1024, open=True),
    metavar="GB",
    help="Deliver only to phones sold with at least this much memory.",
)
@options.json_files()
def export_android(
    bundle: Path,
    output: Path,
    steps: tuple[int, ...],
    scheduler: str | None,
    guidance: float | None,
    size: ImageSize | None,
    licence: str | None,
    report: Path | None,
    force: bool,
    delivery: Delivery,
    package: str,
    name: str,
    app: bool,
    expect: Path | None,
    min_ram: float | None,
    as_json: bool,
) -> None:
    """Write an Android project that generates images with the folder BUNDLE, or modules for one.

    The modules are a library of Kotlin sources, the model in packs within Google Play's limits, and an app of
    one screen. With --app, Gradle's files make them a whole project; without it, README.md says in five steps
    how to add them to yours. msd docs android-app leads from here to an image on a phone.

    \b
    Examples:
      msd export-android sd21 -o sd21-android --app --package com.example.painter --steps 20 --steps 30
      msd export-android demo-out -o demo-android --app --delivery assets --expect expected.png
      msd export-android sd21 -o sd21-android --delivery ai-pack --min-ram 8
    """
    from msd.bundle import open_bundle
    from msd.export.android import export
    from msd.export.android.settings import AndroidSettings, reported

    kept = keep_earlier(output, "android", force, ("package", "name", "licence"))
    settings = AndroidSettings(
        delivery=delivery,
        package=kept["package"] or package,
        name=kept["name"] or name,
        min_ram=None if min_ram is None else reported(min_ram),
        app=app,
        expect=expect,
        steps=steps,
        scheduler=scheduler,
        guidance=guidance,
        licence=kept["licence"],
        report=load_export_report(report),
    )
    with one_size_of(open_bundle(bundle), size) as picked, copy_progress() as on_progress:
        say_least_steps(picked, min(steps or [picked.manifest.images.steps]))
        plan = export.export_android(picked, output, settings, force, on_progress)
    _print_plan(plan, output, app, as_json)


@click.command("export-files", cls=Command)
@options.export
def export_files(
    bundle: Path,
    output: Path,
    steps: tuple[int, ...],
    scheduler: str | None,
    guidance: float | None,
    size: ImageSize | None,
    licence: str | None,
    report: Path | None,
    force: bool,
) -> None:
    """Write the files of the folder BUNDLE and a manifest for an app of yours, on iOS for example: no code.

    \b
    Example:
      msd export-files sd21 -o sd21-files --steps 20 --scheduler dpm++
    """
    from msd.bundle import open_bundle
    from msd.export.app.manifest import describe
    from msd.export.files import export

    with one_size_of(open_bundle(bundle), size) as picked:
        say_least_steps(picked, min(steps or [picked.manifest.images.steps]))
        manifest = describe(
            picked,
            steps=steps,
            scheduler=scheduler,
            guidance=guidance,
            licence=keep_earlier(output, "files", force, ("licence",))["licence"],
            report=load_export_report(report),
        )
        with copy_progress() as on_progress:
            export.export_files(picked, output, manifest, force, on_progress)
    say(f"{output}: README.md says how to include it", err=True)


def one_size_of(bundle: Bundle, size: ImageSize | None) -> AbstractContextManager[Bundle]:
    """Return the bundle of one size; refuses to choose among several: an app is built for one."""
    from msd.conversion.sizes.pick import one_size

    sizes = bundle.manifest.configuration.sizes
    if sizes and size is None:
        has = " or ".join(map(str, sizes))
        raise click.UsageError(f"An app has one size of images: choose --size {has}.")
    return one_size(bundle, size)


def _print_plan(plan: ExportPlan, output: Path, app: bool, as_json: bool) -> None:
    packs = {pack.folder: list(pack.files) for pack in plan.packs}
    if as_json:
        say_json(json.dumps({"output": str(output), "model": plan.manifest.model, "packs": packs}))
        return
    for folder, names in packs.items():
        say(f"{output / folder}: {', '.join(names)}", err=True)
    if plan.manifest.weights.licence is None:
        say("the licence of the weights is unknown; --licence puts it into NOTICE", err=True)
    goal = "bring it to a phone" if app else "include it"
    say(f"{output}: README.md says in five steps how to {goal}", err=True)

"""`msd export-android` and `msd export-files`: export a converted folder as part of an app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msd.cli import options
from msd.cli.command import Command
from msd.cli.earlier import keep_earlier
from msd.cli.export_request import ExportRequest, export_options, say_unknown_licence
from msd.cli.plain import say, say_json
from msd.cli.progress import copy_progress

if TYPE_CHECKING:
    from msd.export.android.export import ExportPlan
    from msd.export.android.settings import Delivery

DELIVERIES = click.Choice(["asset-pack", "ai-pack", "download", "assets"])


@click.command("export-android", cls=Command)
@export_options
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
    request: ExportRequest,
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
    from msd.export.android import export
    from msd.export.android.settings import AndroidSettings, reported

    output, force = request.output, request.force
    kept = keep_earlier(output, "android", force, ("package", "name", "licence"))
    settings = AndroidSettings(
        delivery=delivery,
        package=kept["package"] or package,
        name=kept["name"] or name,
        min_ram=None if min_ram is None else reported(min_ram),
        app=app,
        expect=expect,
        **request.offer(kept["licence"]),
    )
    with request.opened() as picked, copy_progress() as on_progress:
        plan = export.export_android(picked, output, settings, force, on_progress)
    _print_plan(plan, output, app, as_json)


@click.command("export-files", cls=Command)
@export_options
@options.json_files()
def export_files(request: ExportRequest, as_json: bool) -> None:
    """Write the files of the folder BUNDLE and a manifest for an app of yours, on iOS for example: no code.

    \b
    Example:
      msd export-files sd21 -o sd21-files --steps 20 --scheduler dpm++
    """
    from msd.export.app.manifest import describe
    from msd.export.files import export

    output, force = request.output, request.force
    with request.opened() as picked:
        licence = keep_earlier(output, "files", force, ("licence",))["licence"]
        manifest = describe(picked, **request.offer(licence))
        with copy_progress() as on_progress:
            refusals = export.export_files(picked, output, manifest, force, on_progress)
    for why in refusals.values():
        say(f"warning: {why}", err=True)
    if as_json:
        files = [f"{export.MODELS}/{file.name}" for file in manifest.files]
        say_json(json.dumps({"output": str(output), "model": manifest.model, "files": files}))
        return
    say_unknown_licence(manifest.weights.licence, "into README.md")
    say(f"{output}: README.md says how to include it", err=True)


def _print_plan(plan: ExportPlan, output: Path, app: bool, as_json: bool) -> None:
    packs = {pack.folder: list(pack.files) for pack in plan.packs}
    if as_json:
        say_json(json.dumps({"output": str(output), "model": plan.manifest.model, "packs": packs}))
        return
    for folder, names in packs.items():
        say(f"{output / folder}: {', '.join(names)}", err=True)
    say_unknown_licence(plan.manifest.weights.licence, "into NOTICE")
    goal = "bring it to a phone" if app else "include it"
    say(f"{output}: README.md says in five steps how to {goal}", err=True)

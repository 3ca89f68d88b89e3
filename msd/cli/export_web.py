"""`msd export-web`: export a converted folder as a web page."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from msd.cli import options
from msd.cli.command import Command
from msd.cli.earlier import keep_earlier
from msd.cli.export_request import ExportRequest, export_options, say_unknown_licence
from msd.cli.least_steps import least_steps
from msd.cli.plain import data_size, say, say_json
from msd.cli.progress import component_progress
from msd.export.web.manifest import RUNTIMES, TITLE

if TYPE_CHECKING:
    from msd.export.web.manifest import Runtime, WebManifest

MANY = 10
"""Denoising steps; a model with fewer was trained for them."""

EXAMPLE = """\b
Examples:
  msd export-web demo-out -o demo-site
  msd export-web sd21 -o sd21-site --steps 20 --steps 30 --licence "CreativeML Open RAIL++-M"
  msd export-web demo-out -o demo-site --runtime litert --force
"""


@click.command("export-web", cls=Command, epilog=EXAMPLE)
@export_options
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="msd",
    show_default=True,
    help="What runs the networks: msd's own kernels, or LiteRT.js.",
)
@click.option(
    "--litert-js",
    type=click.Path(exists=True, path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="npm's packages of LiteRT.js, unpacked.  [default: npm fetches them]",
)
@click.option(
    "--expected/--no-expected",
    default=True,
    show_default=True,
    help="Run each network once on the CPU, so that the page can compare a device's numbers with it.",
)
@click.option("--title", default=TITLE, show_default=True, help="The title of the page.")
@click.option("--name", show_default="that of the weights", help="What the page calls the model.")
@options.json_files()
def export_web(
    request: ExportRequest,
    runtime: Runtime,
    litert_js: Path | None,
    expected: bool,
    title: str,
    name: str | None,
    as_json: bool,
) -> None:
    """Write a web page that generates images with the folder BUNDLE on the GPU of whoever opens it.

    The page is a static folder for any web server; `msd serve` shows it on this machine. A visitor's browser
    fetches the model once and keeps it. It needs WebGPU: Chrome on Android, Safari on iPhone, and all of them
    on desktops. Nothing that a visitor types or generates leaves the device.
    """
    from msd.export.app.manifest import describe
    from msd.export.web.export import WebSettings
    from msd.export.web.export import export_web as export

    if litert_js and runtime != "litert":
        raise click.UsageError("--litert-js is for --runtime litert.")
    for option, text in ("--title", title), ("--name", name):
        if text is not None and not text.strip():
            raise click.UsageError(f"{option} is empty; leave it out for the default.")
    output, force = request.output, request.force
    kept = keep_earlier(output, "web", force, ("title", "name", "licence"))
    settings = WebSettings(runtime, expected, litert_js, title=kept["title"] or title, name=kept["name"])
    with request.opened(verify=True) as picked:
        offer = request.offer(kept["licence"])
        steps = request.steps or _offered(picked.manifest.images.steps, least_steps(picked))
        manifest = describe(picked, **offer | {"steps": steps})
        with component_progress() as on_progress:
            web = export(picked, output, manifest, settings, force, on_progress)
    _print(web, output, manifest.weights.licence, as_json)


def _offered(steps: int, least: int) -> tuple[int, ...]:
    """Return the numbers of steps that a visitor chooses from: a few-step model has but its own.

    None is below the `least` that the model's colours need, unless its own is.
    """
    return (steps, max(steps // 2, min(least, steps)), 3 * steps // 2) if steps >= MANY else (steps,)


def _print(web: WebManifest, output: Path, licence: str | None, as_json: bool) -> None:
    from msd.export.web.litert import ABORTED, OPENED
    from msd.models.families import title_of

    if as_json:
        facts = {"output": str(output), "runtime": web.runtime, "model": web.model, "bytes": web.fetched}
        say_json(json.dumps(facts))
        return
    for precision, size in web.fetched.items():
        say(f"a visitor fetches {data_size(size)} for {precision}", err=True)
    for role, size in web.fetched_later.items():
        say(f"a picture that needs the {title_of(role)} fetches {data_size(size)} more", err=True)
    if web.largest_model > OPENED:
        say(
            f"LiteRT.js was seen to open files of up to {OPENED / 1e6:.0f} MB, and to abort at one of"
            f" {ABORTED / 1e6:.0f}; the largest here has {web.largest_model / 1e6:.0f}: use --runtime msd",
            err=True,
        )
    say_unknown_licence(licence, "on the page")
    say(f"{output}: msd serve {quote(str(output))} shows it, and README.md says how to publish it", err=True)

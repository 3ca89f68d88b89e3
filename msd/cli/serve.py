"""`msd serve`: show an exported site in a browser of this machine, or of a phone on its cable."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from shlex import quote

import click

from msd.bundle import MANIFEST
from msd.cli import options
from msd.cli.command import Command, Failure
from msd.cli.plain import say, say_json

EXAMPLE = """\b
Examples:
  msd serve site
  msd serve site --port 0 --json
"""


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("site", type=options.FOLDER)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free."
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as a line of JSON.")
def serve(site: Path, port: int, as_json: bool) -> None:
    """Show the exported folder SITE in a browser, until Ctrl-C.

    The server answers this machine alone. A phone reaches it over its cable by adb reverse; anywhere else the
    folder belongs on a server with HTTPS, since browsers have WebGPU only there and on localhost.
    """
    from msd.export.web.server import open_server

    if (site / MANIFEST).is_file():
        page = quote(f"{site}-page")
        raise Failure(
            f"{site} is a converted model, not yet a page: first msd export-web {quote(str(site))} -o {page},"
            f" then msd serve {page}"
        )
    with open_server(site, port) as server, suppress(KeyboardInterrupt):
        if as_json:
            say_json(json.dumps({"address": server.address, "port": server.server_port}))
        else:
            _say_address(site, server.address, server.server_port)
        server.serve_forever()


def _say_address(site: Path, address: str, port: int) -> None:
    say(f"{site}: {address} (Ctrl-C ends it)")
    say(f"on a phone with a cable: adb reverse tcp:{port} tcp:{port}, then http://localhost:{port}/ there")
    say("on any other: put the folder on a server with HTTPS; without it browsers have no WebGPU")

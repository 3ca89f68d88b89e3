"""The `msd` command: the umbrella of all the others."""

from __future__ import annotations

import click

import msd as package
from msd.cli.command import LazyGroup

COMMANDS = {
    "convert": ("msd.cli.convert:convert", "Convert a checkpoint to three .tflite files."),
    "report": ("msd.cli.report:report", "Ask the GPU delegate whether it takes each file whole."),
    "delegation-report": ("msd.cli.report:report", "The same as report."),
    "blocks": ("msd.cli.blocks:blocks", "Measure each block of a compressed network by itself."),
    "sensitivity": (
        "msd.cli.sensitivity:sensitivity",
        "Make a recipe that mixes forms for a size or an error.",
    ),
    "bench": ("msd.cli.bench:bench", "Measure how long networks take, here or on a phone."),
    "generate": ("msd.cli.generate:generate", "Draw a picture with converted files."),
    "regress": ("msd.cli.regress:regress", "Fail when pictures are worse than golden ones."),
    "export-android": ("msd.cli.export:export_android", "Write a part of an Android project that draws."),
    "export-ios": ("msd.cli.export:export_ios", "Write the files as resources of an iOS app."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(package.__version__, prog_name="msd")
def msd() -> None:
    """Stable Diffusion checkpoints to .tflite files that a phone's GPU delegate takes whole.

    Exit codes: 0 done, 1 failed for the reason given, 2 wrong usage, 3 the answer to a check is no.
    """

"""The commands: they parse options, call one function, and print. Only this room prints.

In: words on a command line. Out: text, JSON and an exit code. `msd` is the group of all the others.

Imports: any room.
"""

from __future__ import annotations

import click

from msd.cli import options
from msd.cli.command import LazyGroup

COMMANDS = {
    "convert": ("msd.cli.convert:convert", "Convert a checkpoint to .tflite files."),
    "report": ("msd.cli.report:report", "Check whether each file is fully delegated to the GPU."),
    "delegation-report": ("msd.cli.report:report", "The same as report."),
    "blocks": ("msd.cli.blocks:blocks", "Measure the error of each block of a compressed network."),
    "sensitivity": (
        "msd.cli.sensitivity:sensitivity",
        "Write a recipe that mixes storage formats for a size or an error.",
    ),
    "bench": ("msd.cli.bench:bench", "Measure latency and memory, here or on a phone."),
    "kernels": ("msd.cli.kernels:kernels", "Measure what each GPU kernel of a network costs."),
    "generate": ("msd.cli.generate:generate", "Generate images with converted files."),
    "distill": ("msd.cli.distill:distill", "Train a checkpoint to generate in fewer steps."),
    "regress": ("msd.cli.regress:regress", "Fail when images are worse than golden ones."),
    "compare": ("msd.cli.compare:compare", "Compare two models by their images of the same prompts."),
    "export-android": (
        "msd.cli.export:export_android",
        "Write an Android project that generates images, or modules for one.",
    ),
    "export-web": (
        "msd.cli.export_web:export_web",
        "Write a web page that generates images.",
    ),
    "serve": ("msd.cli.serve:serve", "Show an exported page on this machine."),
    "export-files": ("msd.cli.export:export_files", "Write the files for an app of yours, without code."),
    "export-ios": ("msd.cli.export:export_files", "The same as export-files."),
    "docs": ("msd.cli.docs:docs", "Print a page of the documentation."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
@options.version
def msd() -> None:
    """Convert Stable Diffusion checkpoints to .tflite files that a phone's GPU delegate runs completely.

    Exit codes: 0 success, 1 failure for the reason given, 2 wrong usage, 3 a check failed.
    """

"""Measure what an app's start costs on a JVM: reading the manifest, CLIP's vocabulary and the schedules.

make bench-startup       # → docs/results/bench-startup.json
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from msd.run.runners.machine import this_machine
from scripts.figures import save_figures
from tests.app_bundles import write_clip_app
from tests.jvm import start

ASKED = 0.3
"""Seconds for a bundle with the tokenizer of Stable Diffusion 2.1."""

STEPS = (20, 25, 50)


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--starts", default=5, show_default=True, help="JVMs to start, each of which opens the bundle.")
def main(output: Path, starts: int) -> None:
    """Write the measurements as JSON to OUTPUT and to stdout."""
    with tempfile.TemporaryDirectory() as folder:
        app = write_clip_app(Path(folder) / "app", STEPS)
        measured = [openings(app) for _ in range(starts)]
        files = {
            path.name: path.stat().st_size
            for path in sorted(app.iterdir())
            if path.suffix in (".txt", ".json")
        }
    first = statistics.median(opened[0]["seconds"] for opened in measured)
    report = {
        "machine": asdict(this_machine()),
        "versions": {"python": platform.python_version(), "java": java()},
        "files, bytes": files,
        "steps of the schedules": STEPS,
        "asked seconds": ASKED,
        "seconds of the first opening in a new JVM, median": round(first, 3),
        "share of the asked": round(first / ASKED, 2),
        "seconds of the fifth opening, median": round(
            statistics.median(o[-1]["seconds"] for o in measured), 3
        ),
        "bytes allocated by an opening": measured[0][-1]["bytes"],
    }
    save_figures(output, report, "msd/export")
    click.echo(json.dumps(report, indent=2))


def openings(app: Path, repeats: int = 5) -> list[dict[str, Any]]:
    """Return what each of some openings in a JVM of their own took."""
    with start() as jvm:
        return [jvm.ask("opening", folder=str(app)) for _ in range(repeats)]


def java() -> str:
    """Return the version of the Java runtime."""
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return printed.splitlines()[0]


if __name__ == "__main__":
    main()

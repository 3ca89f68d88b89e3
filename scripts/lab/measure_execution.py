"""Generate one image in each mode of execution, in turn, and measure seconds and memory.

    msd-convert path/to/stable-diffusion-2-1-base -o sd21
    python scripts/lab/measure_execution.py sd21 -o docs/results/execution.json -- --dynamic-range --steps 4

A process of its own generates each image and records it as `msd generate --timeline` does. A figure of the
last three runs is written beside the result.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click

from msd.bundle import file_facts, open_bundle
from msd.run.runtime.execution import EXECUTIONS
from msd.run.runtime.timeline import Timeline, load_timeline
from msd.run.runtime.timeline_plot import save_plot
from scripts.figures import save_figures
from scripts.lab.measured import machine

MEASURED = ("seconds", "cpu_seconds", "peak_bytes")
PROMPT = "an astronaut on a horse"


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True))
@click.argument("options", nargs=-1)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
def main(bundle: Path, options: tuple[str, ...], output: Path, repeats: int) -> None:
    """Write the measurements of BUNDLE as JSON to OUTPUT; OPTIONS are those of msd generate."""
    runs: list[dict[str, Any]] = []
    last: dict[str, Timeline] = {}
    for repeat in range(repeats):
        order = EXECUTIONS if repeat % 2 == 0 else EXECUTIONS[::-1]
        for execution in order:
            before = busy()
            last[execution], picture = draw(bundle, execution, options)
            cpu = round(busy() - before, 2)
            runs.append(row(last[execution]) | {"cpu_seconds": cpu, "picture": picture})
            assert picture == runs[0]["picture"], "every execution draws the same picture"
            click.echo(json.dumps(runs[-1]), err=True)
    report = {
        "machine": machine(),
        "versions": {name: version(name) for name in ("ai-edge-litert", "numpy")},
        "source": open_bundle(bundle).manifest.source.name,
        "bytes": {n: part.bytes for n, part in open_bundle(bundle).manifest.components.items()},
        "medians": medians(runs),
        "runs": runs,
    }
    save_figures(output, report, "msd/run")
    save_plot([last[execution] for execution in EXECUTIONS], output.with_suffix(".svg"))


def draw(bundle: Path, execution: str, options: tuple[str, ...]) -> tuple[Timeline, str]:
    """Return the timeline of one image in a process of its own, and the SHA-256 of its file."""
    with tempfile.TemporaryDirectory() as folder:
        timeline, picture = Path(folder) / "timeline.json", Path(folder) / "picture.png"
        command = [sys.executable, "-c", "from msd.cli import msd; msd()", "generate", str(bundle)]
        command += ["--prompt", PROMPT, "--execution", execution, *options]
        command += ["--timeline", str(timeline), "-o", str(picture)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return load_timeline(timeline), file_facts(picture).sha256


def busy() -> float:
    """Return the seconds that all cores together have spent on processes we started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def row(timeline: Timeline) -> dict[str, Any]:
    """Return the seconds of one run, the peak of its memory in bytes, and the machine's load after it."""
    spent = {
        activity: round(sum(e.end - e.begin for e in timeline.events if e.activity == activity), 2)
        for activity in ("load", "run", "unload")
    }
    return {
        "execution": timeline.execution,
        "seconds": round(timeline.seconds, 2),
        "peak_bytes": timeline.peak,
        "spent": spent,
        "load_average": round(os.getloadavg()[0], 1),
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of seconds and peaks of each execution, and both in parts of the resident one's."""
    found: dict[str, Any] = {}
    for execution in EXECUTIONS:
        mine = [run for run in runs if run["execution"] == execution]
        found[execution] = {key: median(run[key] for run in mine) for key in MEASURED}
    for values in found.values():
        for key in MEASURED:
            values[f"{key}_of_resident"] = round(values[key] / found["resident"][key], 3)
    return found


if __name__ == "__main__":
    main()

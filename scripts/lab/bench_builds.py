"""Time networks on Dawn in two builds of msd, in turn.

    python -m scripts.lab.bench_dawn trace build sd21-base/unet/64x64 sdxl-base/unet/128x128
    python -m scripts.lab.bench_builds build sd21-base/unet/64x64 --before /tmp/old -o found.json

--before is the root of another commit's tree. Weights are int8, drawn from a seed. The builds' runs take
turns, four at a time, of which the first is left out, from inputs on the GPU to outputs there. Each build
opens the file twice, with a cache of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from msd.graph.parity import psnr
from msd.models.structure import load_structure
from scripts.figures import save_figures
from scripts.judge_full_size import write_random
from scripts.lab.bench_dawn import PACKAGES, structure
from scripts.lab.bench_engine import described

CHILD = Path(__file__).with_name("timed_network.py")
ROUNDS, TOGETHER, EACH = 13, 4, 7
Row = dict[str, Any]


class RunningBuild:
    """A network of a build in a process of its own, whose cache is `cache`."""

    def __init__(self, tree: Path, path: Path, cache: Path, precision: str = "fp16") -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "MSD_CACHE": str(cache)}
        command = [sys.executable, str(CHILD)]
        self._process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment, cwd=tree)
        self.ask("open", str(path), precision)

    def ask(self, *request: Any) -> Any:
        """Return the child's answer; raises ClickException where it died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if line := self._process.stdout.readline():
            return json.loads(line)
        raise click.ClickException(f"a build ended with {self._process.wait()} at {request[0]}")

    def close(self) -> None:
        """End the child."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("names", nargs=-1, required=True)
@click.option("--before", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(folder: Path, names: tuple[str, ...], before: Path, output: Path) -> None:
    """Write a row for each network of NAMES, whose structures are in FOLDER, as JSON to OUTPUT."""
    report = described(PACKAGES) | {"recipe": "gpu-w8"}
    trees = {"before": before, "after": Path.cwd()}
    with tempfile.TemporaryDirectory() as work, ProcessPoolExecutor(len(names)) as pool:
        files = pool.map(partial(written, folder, Path(work)), names)
        for network, path in zip(names, files, strict=True):
            row: dict[str, Any] = {"network": network} | compared(trees, path, Path(work) / "cache")
            report["rows"].append(row)
            save_figures(output, report, "msd/gpu", indent=1)
            shown = {name: row[name]["median_seconds"] for name in trees}
            click.echo(f"{network}: {shown}, {json.dumps(row['dB'])}", err=True)


def written(folder: Path, to: Path, name: str) -> Path:
    """Return the file of a network, with random weights."""
    path = to / f"{name.replace('/', '-')}.tflite"
    write_random(load_structure(structure(folder, name)), path, name.split("/")[1], "gpu-w8")
    return path


def compared(trees: dict[str, Path], path: Path, caches: Path) -> Row:
    """Return each build's seconds, and their distances from float32 arithmetic on the GPU."""
    exact = path.with_suffix(".exact.npz")
    full = RunningBuild(trees["after"], path, caches / "exact", "fp32")
    full.ask("first", str(exact))
    full.close()
    row: Row = {name: {} for name in trees}
    for turn in ("first opening", "second opening"):
        builds = {name: RunningBuild(tree, path, caches / name) for name, tree in trees.items()}
        for name, build in builds.items():
            row[name][turn] = build.ask("first", str(path.with_suffix(f".{name}.npz")))
        if turn == "second opening":
            measure(builds, row)
        for build in builds.values():
            build.close()
    row["dB"] = {name: distances(exact, path.with_suffix(f".{name}.npz")) for name in trees}
    return row


def measure(builds: dict[str, RunningBuild], row: Row) -> None:
    """Add the seconds of runs in turn, and those of each dispatch."""
    seconds: dict[str, list[float]] = {name: [] for name in builds}
    for number in range(ROUNDS):
        for name, build in builds.items():
            found = build.ask("runs", TOGETHER)
            seconds[name] += found[1:] if number else []
    for name, build in builds.items():
        row[name] |= {"median_seconds": median(seconds[name]), "run_seconds": seconds[name]}
        row[name]["dispatches"] = build.ask("dispatches", EACH)


def distances(expected: Path, found: Path) -> dict[str, float]:
    """Return the PSNR of each output."""
    exact, other = np.load(expected), np.load(found)
    return {name: round(psnr(exact[name], other[name]), 1) for name in exact.files}


if __name__ == "__main__":
    main()

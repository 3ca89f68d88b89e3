"""Time a denoising step with a ControlNet beside one without, at full size with random weights, in turn.

    python -m scripts.judge_full_size trace build sd15                   # needs TensorFlow
    python -m scripts.judge_full_size trace --controlled build sd15
    python -m scripts.lab.bench_control build sd15 -o docs/results/gpu-control-step.json

The two halves may run on different machines. Networks are loaded at once and run in turn, from inputs in
memory to outputs in memory, in float16. A step with a ControlNet in a file of its own is a run of that
and one of the U-Net that takes residuals. GPU memory is what nvidia-smi shows less when a network is closed.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

from msd.files import schema
from msd.models.structure import load_structure
from msd.run.runners import adapter
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from scripts.figures import save_figures
from scripts.judge_full_size import write_random
from scripts.lab.bench_engine import ENGINES, described, once, take_turns
from scripts.lab.nvidia_smi import gpu_used

FILES = {
    "U-Net": "{}/unet",
    "U-Net that takes residuals": "{}-controlled/unet",
    "ControlNet": "{}-controlled/controlnet_any",
    "U-Net with the ControlNet inside": "{}-fused/unet",
}
"""The networks and the places of their structures, of which a folder may have fewer."""

PACKAGES = ("ai-edge-litert", "wgpu", "wgpudawn", "numpy")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("model")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--engine", "engines", multiple=True, type=click.Choice([*ENGINES]), default=("litert-gpu",))
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option("--repeats", type=click.IntRange(1, 1000), default=20, show_default=True)
def main(folder: Path, model: str, output: Path, engines: tuple[str, ...], recipe: str, repeats: int) -> None:
    """Write the medians of MODEL's networks, whose structures are in FOLDER, as JSON to OUTPUT."""
    report = described(PACKAGES) | {"model": model, "recipe": recipe, "precision": "fp16"}
    report["commands"].append("python -m scripts.lab.bench_control " + " ".join(sys.argv[1:]))
    places = {name: folder / f"{place.format(model)}.zip" for name, place in FILES.items()}
    present = {name: place for name, place in places.items() if place.exists()}
    with tempfile.TemporaryDirectory() as temporary:
        paths = {name: Path(temporary) / f"{i}.tflite" for i, name in enumerate(present)}
        with ProcessPoolExecutor(len(paths), multiprocessing.get_context("spawn")) as pool:
            jobs = partial(written, recipe=recipe)
            report["files"] = dict(zip(paths, pool.map(jobs, present.values(), paths.values()), strict=True))
        for engine in engines:
            report["rows"].append({"engine": engine, "networks": in_turn(engine, paths, repeats)})
            save_figures(output, report, "msd/gpu", indent=1)
            say(report["rows"][-1])


def written(structure: Path, path: Path, recipe: str) -> dict[str, Any]:
    """Write a structure's file with random weights; return its size and operation counts."""
    return write_random(load_structure(structure), path, structure.stem, recipe)


def in_turn(engine: str, paths: Mapping[str, Path], repeats: int) -> dict[str, Any]:
    """Return each network's seconds and GPU memory."""
    conditions = Conditions(precision="fp16", adapter=adapter.find())
    with ThreadPoolExecutor(len(paths)) as pool:
        opened = pool.map(lambda path: ENGINES[engine](path, conditions), paths.values())
        runners = dict(zip(paths, opened, strict=True))
    try:
        runs = [partial(once, each, random_inputs(each.inputs.values())) for each in runners.values()]
        times = dict(zip(runners, take_turns(runs, repeats), strict=True))
        return {name: facts(runners[name], seconds) for name, seconds in times.items()}
    finally:
        for runner in runners.values():
            runner.__exit__(None, None, None)


def facts(runner: ProcessRunner, seconds: list[float]) -> dict[str, Any]:
    """Return a network's median and placement, and the GPU memory that closing it gives back."""
    before, placement = gpu_used(), runner.placement
    runner.__exit__(None, None, None)
    return {
        "placement": schema.to_json(placement),
        "load_seconds": round(runner.load_seconds, 1),
        "median_seconds": median(seconds),
        "gpu_bytes": before - gpu_used(),
        "run_seconds": seconds,
    }


def say(row: dict[str, Any]) -> None:
    """Print an engine's row on stderr."""
    for name, each in row["networks"].items():
        click.echo(
            f"{row['engine']}, {name}: {each['median_seconds'] * 1e3:.2f} ms,"
            f" {each['gpu_bytes'] / 1e9:.2f} GB, loaded in {each['load_seconds']} s",
            err=True,
        )


if __name__ == "__main__":
    main()

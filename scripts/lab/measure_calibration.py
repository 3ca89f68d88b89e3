"""Measure what a calibration costs when the U-Net of a checkpoint of full size is converted.

    python -m scripts.make_random_checkpoint diffusers build/sd21 --model sd21-base
    python -m scripts.lab.measure_calibration build/sd21 -o docs/results/rounding.json/conversion

The inputs are random numbers: generating a calibration's images, with two passes of the U-Net for each step
of a prompt, comes on top. Each conversion is a process of its own.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.run.runners.random_inputs import random_inputs
from scripts.figures import save_figures
from scripts.lab.measured import machine, measured

CONVERT = [sys.executable, "-m", "msd.cli", "convert"]


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--runs", type=click.IntRange(1), default=16, show_default=True, help="Of the calibration.")
@click.option("--recipe", "recipes", multiple=True, default=("gpu-w8",), show_default=True)
def main(source: Path, output: Path, runs: int, recipes: tuple[str, ...]) -> None:
    """Convert the U-Net of SOURCE with each recipe, without and with a calibration; write JSON to OUTPUT."""
    report: dict[str, Any] = {
        "command": "python -m scripts.lab.measure_calibration " + " ".join(sys.argv[1:]),
        "machine": machine(),
        "versions": {name: version(name) for name in ("numpy", "ai-edge-litert")},
        "calibration": f"{runs} runs with random inputs",
        "recipes": {},
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for recipe in recipes:
            report["recipes"][recipe] = row = measure(source, recipe, runs, folder)
            click.echo(f"{recipe}: {json.dumps(row)}")
            save_figures(output, report, "msd/compress")


def measure(source: Path, recipe: str, runs: int, folder: Path) -> dict[str, Any]:
    """Return the seconds, bytes of memory and parameters of both conversions."""
    plain = convert(source, folder / recipe, recipe)
    unet = folder / recipe / "unet.tflite"
    write_inputs(unet, folder / "inputs", runs)
    calibrated = convert(source, folder / "calibrated", recipe, "--calibration", str(folder / "inputs"))
    constants = [t for t in tflite.read(unet).main.tensors() if t.data is not None]
    return {
        "parameters": sum(t.size for t in constants),
        "without a calibration": plain,
        "calibrated": calibrated,
        "bytes of the files": [unet.stat().st_size, (folder / "calibrated" / unet.name).stat().st_size],
    }


def convert(source: Path, out: Path, recipe: str, *options: str) -> dict[str, Any]:
    """Convert the U-Net into `out`; returns what that cost."""
    chosen: Sequence[str] = "--component", "unet", "--recipe", recipe, "--force", *options
    return asdict(measured([*CONVERT, source, "-o", out, *chosen]))


def write_inputs(model: Path, folder: Path, runs: int) -> None:
    """Write random inputs of a .tflite file, which differ from run to run."""
    folder.mkdir(exist_ok=True)
    ports = Interface.of(tflite.read(model), model).inputs.values()
    for run in range(runs):
        np.savez(folder / f"{run}.npz", **random_inputs(ports, run))


if __name__ == "__main__":
    main()

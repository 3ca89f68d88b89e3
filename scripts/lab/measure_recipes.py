"""Measure each recipe on the demo checkpoint: sizes, distance to float32, the real delegate's verdict.

    python -m scripts.lab.measure_recipes -o docs/results/recipes.json

On the CPU in float arithmetic, over the inputs of the networks during generation; some minutes. A text
encoder in two files is measured by its second, with what the first finds in the table for the same prompts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.calibration.inputs import Inputs
from msd.compress.encoding.recipe import find_recipe, shipped
from msd.conversion.convert import Settings, convert
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.judging import judge
from msd.measure.report.witness import witnesses
from msd.models.demo import CHECKPOINT
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.run.runners.interpreter import Interpreter
from scripts.figures import save_figures
from scripts.lab.measured import machine

FLOAT, TEXT = "float32", "text_encoder"


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(output: Path) -> None:
    """Write the measurements as JSON to OUTPUT, and a table in Markdown to stdout."""
    calibration = Calibration()
    with tempfile.TemporaryDirectory() as folder:
        bundles = {name: converted(name, Path(folder) / name) for name in dict.fromkeys((FLOAT, *shipped()))}
        runs = calibration.runs(bundles[FLOAT], STABLE_DIFFUSION.required, Path(folder) / "inputs")
        split = bundles["tflite-gpu-w8"]
        looked_up = calibration.runs(split, (TEXT,), Path(folder) / "looked-up")
        wanted = {c: made(bundles[FLOAT].path(c), runs[c]) for c in STABLE_DIFFUSION.required}
        rows = {
            name: {
                c: measure(bundle, c, (looked_up if bundle is split and c == TEXT else runs)[c], wanted[c])
                for c in STABLE_DIFFUSION.required
            }
            for name, bundle in bundles.items()
        }
    report = {
        "command": "python -m scripts.lab.measure_recipes " + " ".join(sys.argv[1:]),
        "machine": machine(),
        "versions": {name: version(name) for name in ("ai-edge-litert", "numpy", "tflite-runtime")},
        "inputs": str(calibration),
        "recipes": rows,
    }
    save_figures(output, report, "graph_rewrites", "msd/compress/encoding")
    print_table(rows)


def converted(recipe: str, out: Path) -> Bundle:
    """Return the demo checkpoint as a bundle."""
    convert(CHECKPOINT, out, Settings(graph_rewrites.load(), find_recipe(recipe)))
    click.echo(f"{recipe}: converted", err=True)
    return open_bundle(out)


def made(path: Path, runs: Iterable[Inputs]) -> list[Array]:
    """Return a network's outputs for each of its inputs."""
    with Interpreter(path, float_weights=True) as network:
        return [next(iter(network.run(inputs).values())) for inputs in runs]


def measure(bundle: Bundle, component: str, runs: Iterable[Inputs], wanted: list[Array]) -> dict[str, Any]:
    """Return a file's size, its least PSNR in dB, the delegate's verdict, and tflite-runtime's result."""
    path, recipe = bundle.path(component), bundle.manifest.configuration.recipe.name
    least = min(psnr(a, b) for a, b in zip(wanted, made(path, runs), strict=True))
    row: dict[str, Any] = {"bytes": path.stat().st_size}
    row["least PSNR"] = None if recipe == FLOAT else round(least, 1)
    if find_recipe(recipe).delegate:
        verdict = judge(path)
        row["on the GPU"] = f"{verdict.delegated} of {verdict.operations} in {verdict.partitions}"
        row["agrees with the CPU"] = verdict.ok
    row["tflite-runtime 2.14"] = witnesses(path, 120)[0].says
    click.echo(f"{recipe} {component}: {row}", err=True)
    return row


def print_table(rows: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print each recipe's row: kB, least PSNR and verdict of each component."""
    click.echo(
        "| recipe | "
        + " | ".join(STABLE_DIFFUSION.required)
        + " |\n"
        + "|---" * (len(STABLE_DIFFUSION.required) + 1)
        + "|"
    )
    for name, row in rows.items():
        cells = [
            ", ".join(
                [
                    f"{each['bytes'] / 1000:.0f} kB",
                    *([f"{each['least PSNR']:.1f} dB"] if each["least PSNR"] is not None else []),
                    *([each["on the GPU"]] if "on the GPU" in each else []),
                ]
            )
            for each in row.values()
        ]
        click.echo(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

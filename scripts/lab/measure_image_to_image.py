"""Measure the distance of images that begin from an image from diffusers', with the same pixels and noise.

    python -m scripts.lab.measure_image_to_image -o docs/results/image-to-image-parity.json

Image to image and inpainting, of small random checkpoints and of the demo, float32 and int8. Needs the test
extra (diffusers, torch). Minutes.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from msd.models.demo import CHECKPOINT
from scripts.figures import save_figures
from scripts.lab.measured import machine
from tests import checkpoints
from tests.begun_images import SEED, STEPS, converted, distances
from tests.drawings import KINDS

STRENGTHS = 0.3, 0.6, 1.0
INPAINTING = "ddim", "dpm++", "euler"
"""The schedulers to measure inpainting with."""


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(output: Path) -> None:
    """Write the PSNR of latents and images, in dB, as JSON to OUTPUT."""
    with tempfile.TemporaryDirectory() as temporary:
        rows = {
            f"{name}, {recipe}": _measure(checkpoint, recipe, Path(temporary))
            for name, checkpoint in _checkpoints(Path(temporary)).items()
            for recipe in ("float32", "gpu-w8")
        }
    report = {
        "command": "python -m scripts.lab.measure_image_to_image " + " ".join(sys.argv[1:]),
        "machine": machine(),
        "diffusers": version("diffusers"),
        "steps": STEPS,
        "seed": SEED,
        "psnr of latents and images": rows,
    }
    save_figures(output, report, "msd/run/runtime")


def _checkpoints(folder: Path) -> dict[str, Path]:
    """Return the checkpoints, those that are random written to `folder`."""
    random, inpainting, demo = (folder / name / name for name in ("sd21", "inpainting", "demo"))
    checkpoints.write(random, checkpoints.SD21)
    checkpoints.write(inpainting, checkpoints.INPAINTING)
    shutil.copytree(CHECKPOINT, demo)
    return {"random": random, "random, 9 channels": inpainting, "demo": demo}


def _measure(checkpoint: Path, recipe: str, folder: Path) -> dict[str, Any]:
    """Return the distances of every kind of image, scheduler and strength; prints each."""
    case, rows = converted(checkpoint, recipe), {}
    kinds: list[tuple[str, bool, tuple[str, ...]]] = [("inpainting", True, INPAINTING)]
    if checkpoint.name != "inpainting":
        kinds.insert(0, ("image to image", False, tuple(KINDS)))
    for kind, masked, schedulers in kinds:
        for scheduler, strength in itertools.product(schedulers, STRENGTHS):
            found = [round(db, 1) for db in distances(case, folder, masked, strength, scheduler)]
            rows[f"{kind}, {scheduler}, {strength:g}"] = found
            click.echo(f"{checkpoint.name} {recipe} {kind} {scheduler} {strength:g}: {found}", err=True)
    return rows


if __name__ == "__main__":
    main()

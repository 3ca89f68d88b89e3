"""Measure the distance of images from diffusers', by scheduler, with the same weights and noise.

    python -m scripts.lab.measure_schedulers -o docs/results/scheduler-parity.json

The demo checkpoint predicts noise; a small random one predicts velocity. Recipe float32. Needs
the test extra (diffusers, torch). Minutes.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from msd.run.runtime.noise import noise
from scripts.figures import save_figures
from scripts.lab.measured import machine
from tests import checkpoints
from tests.drawings import KINDS, Drawing

STEPS = {"lcm": 8, "tcd": 8}
VELOCITY = (("prediction_type", "v_prediction"),)


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--captions", "count", default=4, show_default=True)
@click.option("--steps", default=20, show_default=True, help="Of LCM and TCD 8.")
def main(output: Path, count: int, steps: int) -> None:
    """Write the PSNR of latents and images, in dB, as JSON to OUTPUT."""
    prompts = captions("held-back", count, seed=1)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        random = Path(folder) / "random"
        checkpoints.write(random, checkpoints.SD21)
        for name, source, changes in (
            ("demo, noise", CHECKPOINT, ()),
            ("random, velocity", random, VELOCITY),
        ):
            convert(source, Path(folder) / name, Settings(graph_rewrites.load(), find_recipe("float32")))
            bundle = open_bundle(Path(folder) / name)
            for scheduler in KINDS:
                each = [
                    Drawing(
                        scheduler=scheduler,
                        steps=STEPS.get(scheduler, steps),
                        prompt=prompt,
                        negative_prompt="",
                        seed=seed,
                        changes=changes,
                    )
                    for seed, prompt in enumerate(prompts)
                ]
                rows[f"{name}, {scheduler}"] = measure(each, bundle, source)
                click.echo(f"{name}, {scheduler}: {rows[f'{name}, {scheduler}']}", err=True)
    report = {
        "command": "python -m scripts.lab.measure_schedulers " + " ".join(sys.argv[1:]),
        "machine": machine(),
        "versions": {n: version(n) for n in ("diffusers", "torch", "ai-edge-litert", "numpy")},
        "captions": count,
        "guidance": 7.5,
        "PSNR in dB": rows,
    }
    save_figures(output, report, "msd/run/runtime")


def measure(drawings: list[Drawing], bundle: Bundle, source: Path) -> dict[str, Any]:
    """Return steps, and the median and least PSNR of latents and of images, 8 bits a channel."""
    found = []
    for drawing in drawings:
        start = noise(drawing.seed, bundle.component("unet").inputs[0].shape)
        latents, picture, _ = drawing.ours(bundle, start)
        wanted, shown = drawing.theirs(source, start)
        found.append((psnr(wanted, latents), psnr(np.rint(shown * 255) / 255, picture)))
    median, least = np.median(found, axis=0), np.min(found, axis=0)
    return {
        "steps": drawings[0].steps,
        "latents": {"median": round(float(median[0]), 1), "least": round(float(least[0]), 1)},
        "pictures": {"median": round(float(median[1]), 1), "least": round(float(least[1]), 1)},
    }


if __name__ == "__main__":
    main()

"""Measure how well images of the demo follow the edges asked for, converted with a ControlNet.

    msd-convert -o build/control/float32 --recipe float32 --controlnet scripts/demo_control:canny
    msd-convert -o build/control/gpu-w8 --controlnet scripts/demo_control:canny
    python -m scripts.lab.measure_control build/control -o docs/results/control-demo.json -n 32

Held-back captions, each with the edges of a drawing of its scene; LiteRT's CPU in float arithmetic, 20 steps
of DDIM, guidance 7.5. Beside them the same images without control, by the first folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from msd.bundle import open_bundle
from msd.run.runtime.control import Control
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from scripts.figures import save_figures
from scripts.lab.train_demo_control import figures, held_back

CHECKPOINT = Path(__file__).parents[1] / "demo_control"
NAME = "canny"


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "output", type=click.Path(path_type=Path), required=True)
@click.option("-n", "count", default=32, show_default=True, help="How many images each.")
def main(folder: Path, output: Path, count: int) -> None:
    """Write the figures of each converted folder in FOLDER."""
    report: dict[str, Any] = {"images": count, "sampler": "DDIM, 20 steps, guidance 7.5", "backend": "cpu"}
    for bundle in sorted(path.parent for path in folder.glob("*/manifest.json")):
        report.setdefault("without control", measured(bundle, count, 0.0))
        report[bundle.name] = measured(bundle, count, 1.0)
        click.echo(f"{bundle.name}: {report[bundle.name]}", err=True)
        save_figures(output, report, "msd/models", "msd/conversion", "msd/run/runtime")


def measured(folder: Path, count: int, scale: float) -> dict[str, float]:
    """Return the figures of `count` images of a folder, steered by their edges times `scale`."""
    asked = held_back(count)
    requests = [
        Request(text, seed=i, steps=20, guidance=7.5, controls=(Control(NAME, as_hint(edges), scale),))
        for i, (text, edges) in enumerate(asked)
    ]
    with Pipeline(open_bundle(folder), scheduler="ddim") as pipeline:
        images = pipeline.generate_all(requests)
    return figures(np.stack([image.pixels for image in images]), asked)


def as_hint(edges: Any) -> Any:
    """Return edges (H, W) of 0 and 1 as a white drawing on black, float32 (1, H, W, 3) in [-1, 1]."""
    return np.repeat(edges[None, :, :, None].astype(np.float32) * 2 - 1, 3, axis=-1)


if __name__ == "__main__":
    main()

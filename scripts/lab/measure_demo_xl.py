"""Measure the small Stable Diffusion XL of the demo's scenes, converted: how many attributes images show.

    python -m scripts.lab.demo_xl_checkpoint build/demo-xl
    msd-convert build/demo-xl -o build/xl/float32 --recipe float32
    msd-convert build/demo-xl -o build/xl/gpu-w8
    msd-convert build/demo-xl -o build/xl/gpu-w4 --recipe gpu-w4
    python -m scripts.lab.measure_demo_xl build/xl -o docs/results/xl-demo.json -n 120

Images of held-back captions, the i-th from noise of seed i; LiteRT's CPU in float arithmetic, 20 steps of
Euler, guidance 7.5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from msd.bundle import Bundle, open_bundle
from msd.models.demo.captions import captions
from msd.models.demo.scenes import Picture
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from scripts.figures import save_figures
from scripts.lab.measure_demo import figures

STEPS, GUIDANCE = 20, 7.5


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "output", type=click.Path(path_type=Path), required=True)
@click.option("-n", "count", default=120, show_default=True, help="How many captions.")
def main(folder: Path, output: Path, count: int) -> None:
    """Write the figures of each converted folder in FOLDER."""
    report: dict[str, Any] = {"captions": count, "sampler": "Euler, 20 steps, guidance 7.5", "backend": "cpu"}
    for place in sorted(path.parent for path in folder.glob("*/manifest.json")):
        bundle, texts = open_bundle(place), captions("held-back", count, 0)
        size = sum(file.bytes for file in bundle.manifest.components.values())
        report[place.name] = figures(images(bundle, texts), texts) | {"bytes": size}
        click.echo(f"{place.name}: {report[place.name]}", err=True)
        save_figures(output, report, "msd/models", "msd/conversion", "msd/run/runtime")


def images(bundle: Bundle, texts: list[str]) -> Picture:
    """Return an image for each caption, (N, 128, 128, 3) uint8."""
    requests = [Request(text, seed=i, steps=STEPS, guidance=GUIDANCE) for i, text in enumerate(texts)]
    with Pipeline(bundle) as pipeline:
        return np.stack([image.pixels for image in pipeline.generate_all(requests)])


if __name__ == "__main__":
    main()

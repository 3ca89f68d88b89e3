"""Measure what rounding a layer of full size on a calibration costs, in seconds of CPU time and in memory.

    python -m scripts.lab.measure_rounding -o docs/results/rounding.json/full-size

Each layer is one of Stable Diffusion 2.1's U-Net with random weights, and random inputs that depend on each
other. Running the network, whose inputs a conversion observes, comes on top.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from msd.compress.pruning.layer import some_rows
from msd.compress.rounding.compensate import compensated
from msd.compress.rounding.moments import SAMPLES, Moments
from msd.graph.ir import Build, Op, Tensor
from msd.run.runners.peak_memory import peak_rss
from scripts.figures import save_figures
from scripts.lab.measured import machine

LAYERS = {
    "attn1.to_out.0, 640 channels": (640, 1, 640, 32),
    "ff.net.2, 1280 channels": (1280, 1, 5120, 16),
    "conv2, 640 channels": (640, 3, 640, 32),
    "conv1, 1280 channels": (1280, 3, 1280, 16),
}
"""Outputs, width of the kernel, inputs, and width of the image."""

RUNS = 32


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--store", "stores", multiple=True, default=("int8", "int4"))
def main(output: Path, stores: tuple[str, ...]) -> None:
    """Measure every layer in every format."""
    before = peak_rss()
    rows = {name: {store: cost(*LAYERS[name], store) for store in stores} for name in LAYERS}
    report = {
        "command": f"python -m scripts.lab.measure_rounding {' '.join(sys.argv[1:])}",
        "machine": machine(),
        "versions": {"numpy": version("numpy")},
        "samples": SAMPLES,
        "bytes before": before,
        "peak bytes": peak_rss(),
        "layers": rows,
    }
    save_figures(output, report, "msd/compress/rounding")


def cost(outputs: int, kernel: int, channels: int, width: int, store: str) -> dict[str, Any]:
    """Return the seconds of CPU time for observing and rounding a layer, and those per million weights."""
    rng = np.random.default_rng(0)
    op = layer(outputs, kernel, channels, width)
    mixed = rng.standard_normal((channels, channels), np.float32) / np.float32(np.sqrt(channels))
    begun = time.process_time()
    sums, spent = Moments(kernel * kernel, channels), 0.0
    for run in range(RUNS):
        started = time.process_time()
        value = rng.standard_normal((1, width, width, channels), np.float32) @ mixed
        spent += time.process_time() - started
        sums.add(some_rows(op, value, SAMPLES // RUNS, run))
    observed = time.process_time()
    weights = rng.standard_normal((outputs, kernel * kernel * channels), np.float32)
    compensated(weights, sums.parts_of(centred=True), sums.mean, store)
    rounded = time.process_time()
    found = {
        "weights": weights.size,
        "observing, s": round(observed - begun - spent, 2),
        "rounding, s": round(rounded - observed, 2),
        "s per million": round((rounded - begun - spent) / weights.size * 1e6, 2),
    }
    click.echo(f"{outputs} x {weights.shape[1]} {store}: {found}")
    return found


def layer(outputs: int, kernel: int, channels: int, width: int) -> Op:
    """Return a convolution of an image of that width."""
    new, x = Build(), Tensor("x", (1, width, width, channels))
    filters = new.const(np.zeros((outputs, kernel, kernel, channels), np.float32), "filters")
    bias = np.zeros(outputs, np.float32)
    return new.CONV_2D(x, filters, bias, stride_h=1, stride_w=1, padding="SAME").maker


if __name__ == "__main__":
    main()

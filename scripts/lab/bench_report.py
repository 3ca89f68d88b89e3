"""Measure the time of the rules for a graph of 5000 operations, and for one of 1000.

make bench-report        # → docs/results/bench-report.json
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Signature, Tensor
from msd.graph.prediction.device import find_device
from msd.measure.report.examine import examine
from scripts.figures import save_figures

ASKED = 2.0
"""Seconds for 5000 operations, after imports."""


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--repeats", default=5, show_default=True)
def main(output: Path, repeats: int) -> None:
    """Write the measurements as JSON to OUTPUT and to stdout."""
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "asked seconds for 5000 operations": ASKED,
        "seconds, median": {str(count): measure(count, repeats) for count in (1000, 5000)},
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    save_figures(output, report, "msd/graph/prediction")
    click.echo(json.dumps(report, indent=2))


def measure(operations: int, repeats: int) -> float:
    """Return the median seconds of a report for both delegates."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        tflite.write(Model([chain(operations)]), path)
        return round(statistics.median(timed(path) for _ in range(repeats)), 3)


def timed(path: Path) -> float:
    begun = time.perf_counter()
    examine(path, ["litert-gpu", "tflite-gpu"], find_device("adreno-740"))
    return time.perf_counter() - begun


def chain(operations: int) -> Graph:
    """Return residual blocks of a convolution, a sigmoid, a product, a mean and a difference."""
    new = Build()
    x = Tensor("x", (1, 32, 32, 64))
    y: Tensor = x
    while len(new.ops) < operations:
        kernel = new.const(np.full((64, 3, 3, 64), len(new.ops), np.float32))
        hidden = new.CONV_2D(y, kernel, np.zeros(64, np.float32), stride_w=1, stride_h=1)
        hidden = new.MUL(hidden, new.LOGISTIC(hidden))
        y = new.ADD(y, new.SUB(hidden, new.MEAN(hidden, [1, 2], keep_dims=True)))
    graph = Graph([x], [y], new.ops)
    graph.signatures = [Signature("serving_default", {"x": x}, {"y": y})]
    return graph


if __name__ == "__main__":
    main()

"""Count what the networks of public checkpoints read, write and compute in a run, as msd converts them.

    python -m scripts.judge_full_size trace build sd21-base sd15     # needs TensorFlow; less than 1 MB each
    python -m scripts.lab.count_bytes build sd21-base sd15 -o docs/results/counted-bytes.json/standard

Nothing runs and no weight is read: shapes alone decide. Both delegates are counted, on each device.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import msd
from msd.graph.ir import Graph
from msd.graph.prediction.device import find_device
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.gpu_nodes import GpuNode, unfused
from msd.graph.prediction.registry import delegates
from msd.graph.prediction.traffic import by_kind, traffic
from msd.graph.rewrite import Target
from msd.graph.rewrite.spelling import find_spelling
from msd.measure.report.counted_traffic import counted_traffic
from msd.models.structure import load_structure
from scripts.figures import save_figures
from scripts.judge_full_size import random_model

DEVICE = "adreno-740"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("models", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--component", "components", multiple=True, default=("unet",), show_default=True)
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option("--spelling", default="standard", show_default=True)
def main(
    folder: Path,
    models: tuple[str, ...],
    output: Path,
    components: tuple[str, ...],
    recipe: str,
    spelling: str,
) -> None:
    """Write the counts of COMPONENTS of each of MODELS, traced into FOLDER, as JSON to OUTPUT."""
    report: dict[str, Any] = {
        "command": "python -m scripts.lab.count_bytes " + " ".join(sys.argv[1:]),
        "msd": msd.__version__,
        "machine": platform.machine(),
        "precision": "fp16",
        "recipe": recipe,
        "spelling": spelling,
        "device of the weights": DEVICE,
        "models": {},
    }
    for model in models:
        for component in components:
            structure = load_structure(folder / model / f"{component}.zip")
            target = Target(spelling=find_spelling(spelling))
            graph = random_model(structure, component, recipe, target)[0].main
            report["models"].setdefault(model, {})[component] = counts(graph)
    save_figures(output, report, "graph_rewrites", "msd/graph", indent=1)


def counts(graph: Graph) -> dict[str, Any]:
    """Return the counts of a graph: each operator apart, as each delegate joins them, and the least times."""
    least = {
        name: [asdict(time) for time in counted_traffic(graph, find_device(DEVICE).under(name), name).least]
        for name in delegates()
    }
    joined = {name: _rows(fused(graph, delegate), graph, name) for name, delegate in delegates().items()}
    apart = _rows(unfused(graph), graph, "litert-gpu")
    return {"unfused": apart, "fused": joined, "least seconds": least}


def _rows(nodes: list[GpuNode], graph: Graph, delegate: str) -> dict[str, Any]:
    each = traffic(nodes, graph, find_device(DEVICE).under(delegate))
    numbers = Counter(one.kind for one in each)
    kinds = {
        kind: {"dispatches": numbers[kind], **{k: v for k, v in asdict(one).items() if k != "kind"}}
        for kind, one in by_kind(each).items()
    }
    return {
        "dispatches": len(each),
        "activations": sum(one.activations for one in each),
        "weights": sum(one.weights for one in each),
        "arithmetic": sum(one.arithmetic for one in each),
        "kinds": kinds,
    }


if __name__ == "__main__":
    main()

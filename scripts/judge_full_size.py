"""Judge full-size Stable Diffusion with random weights with the real delegate on this machine's GPU.

    python scripts/judge_full_size.py trace build sd21-base sd15       # needs TensorFlow; less than 1 MB each
    python scripts/judge_full_size.py judge build sd21-base sd15 -o docs/results/gpu-full-size.json/models
    python scripts/judge_full_size.py trace --controlled build sd15
    python -m scripts.judge_full_size judge build sd15 sd15-controlled sd15-fused --precision fp16 \\
        --component controlnet_any --component unet -o docs/results/gpu-full-size.json/controlnet

The two halves may run on different machines. Weights are normal with variance 1/fan-in, from a seed. The
verdicts are added to those that OUTPUT already has. GPU memory is what nvidia-smi shows more while a network
is loaded and has run.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

import graph_rewrites
from msd.compress.encoding.encode import encode, stored_bytes
from msd.compress.encoding.recipe import find_recipe
from msd.compress.pruning.prune import prune
from msd.conversion.settings import Settings
from msd.conversion.sources.binding import tensor_name
from msd.conversion.trace import with_weights
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.weights import Array, Weights
from msd.graph.rewrite import Target, apply
from msd.measure.judging import judge
from msd.models.config import ControlledUNetConfig
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.networks import Network, Size
from msd.models.structure import Structure, VariableSpec, load_structure, save_structure
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.runner import Conditions
from scripts.figures import read_figures, save_figures
from scripts.lab.nvidia_smi import gpu_used

RUNS = 10


@click.group()
def main() -> None:
    """Trace the structures, or judge them."""


@main.command("trace")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("models", nargs=-1, required=True)
@click.option(
    "--controlled", is_flag=True, help="A ControlNet and the U-Net that it steers, in two files and in one."
)
def trace_structures(folder: Path, models: tuple[str, ...], controlled: bool) -> None:
    """Write to FOLDER the structures of each of MODELS, which configs/models/ describes."""
    from msd.models.networks import networks, read_configs, size_of
    from msd.models.trace import trace

    for model in models:
        public = tomllib.loads(Path(f"configs/models/{model}.toml").read_text())
        configs = read_configs(STABLE_DIFFUSION, public)
        size = size_of(STABLE_DIFFUSION, configs)
        every = {model: networks(STABLE_DIFFUSION, configs, size)}
        for name, found in (steered(model, public, configs, size) if controlled else every).items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            for component, network in found.items():
                save_structure(trace(network.build, network.inputs), folder / name / f"{component}.zip")


def steered(
    model: str, public: Mapping[str, Any], configs: Mapping[str, Any], size: Size
) -> dict[str, dict[str, Network]]:
    """Return a ControlNet of a public model, and the U-Net that takes its residuals; and both in one."""
    from msd.models.control_config import ControlNetConfig, FusedUNetConfig
    from msd.models.families.control import with_controls
    from msd.models.networks import networks

    shared = {
        k: v for k, v in public["unet"].items() if k not in ("_class_name", "out_channels", "up_block_types")
    }
    control, unet = ControlNetConfig.from_diffusers(shared, "controlnet"), configs["unet"]
    apart = {"controlnet_any": control, "unet": ControlledUNetConfig.of(unet)}
    fused = {"unet": FusedUNetConfig.of(unet, {"any": control})}
    return {
        f"{model}-controlled": networks(with_controls(STABLE_DIFFUSION, ("any",)), apart, size),
        f"{model}-fused": networks(with_controls(STABLE_DIFFUSION, ("any",), fused=True), fused, size),
    }


@main.command("judge")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("models", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--component", "components", multiple=True, default=STABLE_DIFFUSION.names)
@click.option("--recipe", "recipes", multiple=True, default=("gpu-w8",), show_default=True)
@click.option("--precision", "precisions", multiple=True, default=("fp32", "fp16"), show_default=True)
def judge_structures(
    folder: Path,
    models: tuple[str, ...],
    output: Path,
    components: tuple[str, ...],
    recipes: tuple[str, ...],
    precisions: tuple[str, ...],
) -> None:
    """Write the verdicts, latencies and memory as JSON to OUTPUT, after each component that a model has."""
    report = read_figures(output) or {"commands": [], "recipes": {}}
    report["commands"].append("python " + " ".join(sys.argv))
    for recipe, model, name in itertools.product(recipes, models, components):
        if not (folder / model / f"{name}.zip").exists():
            continue
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / f"{name}.tflite"
            row = write_random(load_structure(folder / model / f"{name}.zip"), path, name, recipe)
            for precision in precisions:
                row[precision] = measure(path, precision)
                report["recipes"].setdefault(recipe, {}).setdefault(model, {})[name] = row
                save_figures(output, report, "graph_rewrites", "msd/compress/encoding", "msd/graph")
                click.echo(f"{recipe} {model} {name} {precision}: {row[precision]}", err=True)


def write_random(structure: Structure, path: Path, component: str, recipe: str) -> dict[str, Any]:
    """Write the structure with random weights; return its size and operation counts."""
    model, counts = random_model(structure, component, recipe)
    tflite.write(model, path)
    return {**counts, "bytes": path.stat().st_size}


def random_model(
    structure: Structure, component: str, recipe: str, target: Target | None = None
) -> tuple[Model, dict[str, int]]:
    """Return the rewritten and encoded model, whose random weights are drawn when read, and its counts."""
    drawn = {key: draw(spec, seed) for seed, (key, spec) in enumerate(structure.variables.items())}
    model = with_weights(structure, drawn)
    settings = Settings(graph_rewrites.load(), find_recipe(recipe))
    pruned = 0
    pruning = settings.pruning_of(STABLE_DIFFUSION)
    if pruning and component in pruning.components:
        pruned = prune({component: model.main}, pruning, partial(stored_bytes, settings.recipe)).removed
    ledger = apply(model.main, settings.active_rules, target)
    encode(model.main, settings.recipe, component)
    return model, {"traced": ledger.before, "operations": ledger.after, "parameters pruned": pruned}


def draw(spec: VariableSpec, seed: int) -> Weights:
    """Return random weights for a variable: near 1 for gamma, small for vectors, 1/fan-in for matrices."""
    kind = spec.path.rpartition("/")[2]
    fan_in = int(np.prod(spec.shape[:-1])) if kind == "kernel" else 1

    def load() -> Array:
        normal = np.random.default_rng(seed).standard_normal(spec.shape, dtype=np.float32)
        if kind == "gamma":
            return 1 + normal / 10
        return normal / np.float32(10 if len(spec.shape) == 1 else np.sqrt(fan_in))

    source = (tensor_name(spec),)
    return Weights(spec.shape, np.dtype(np.float32), load, f"random {spec.path}", sources=source)


def measure(path: Path, precision: Any) -> dict[str, Any]:
    """Return the verdict, the median latency of `RUNS` runs, in seconds, including host–device copies, and
    the bytes of GPU memory that the loaded network takes.
    """
    verdict = judge(path, precision=precision)
    row = {
        "adapter": verdict.adapter,
        "verdict": f"{verdict.delegated} of {verdict.operations} operations, {verdict.partitions} partition",
        "ok": verdict.ok,
        "psnr": [round(d.psnr, 1) for d in verdict.outputs],
        "compile_seconds": round(verdict.compile_seconds or 0, 2),
        "problems": [*verdict.problems, *([verdict.failure] if verdict.failure else [])],
    }
    before = gpu_used()
    with GpuProcess(path, Conditions(precision=precision)) as session:
        rng = np.random.default_rng(0)
        inputs = {
            name: rng.integers(0, 49407, port.shape, dtype=np.int32)
            if "int" in str(port.dtype).lower()
            else rng.standard_normal(port.shape, dtype=np.float32)
            for name, port in session.inputs.items()
        }
        session.run(inputs)
        seconds = [_timed(session, inputs) for _ in range(RUNS)]
        taken = gpu_used() - before
    return {**row, "median_seconds": round(float(np.median(seconds)), 4), "gpu_bytes": taken}


def _timed(session: GpuProcess, inputs: dict[str, Array]) -> float:
    begun = time.perf_counter()
    session.run(inputs)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()

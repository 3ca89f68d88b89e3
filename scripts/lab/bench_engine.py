"""Measure msd's WebGPU kernels beside LiteRT's delegate on this machine's GPU, full-size networks in turn.

    python -m scripts.judge_full_size trace build sd21-base sd15       # needs TensorFlow; less than 1 MB each
    python -m scripts.lab.bench_engine build sd21-base sd15 --ablation -o docs/results

The two halves may run on different machines. Weights are int8, drawn from a seed. Every run of one engine is
followed by one of the other, from inputs in memory to outputs in memory; loading and the first run happen one
after the other, so that `nvidia-smi` tells the memory of each. In a folder the file is kernels-ADAPTER.json;
rows are added to those that it has.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click

from msd.files import schema
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.graph.prediction.device import find_device
from msd.measure.profiling.ablation import ablate
from msd.measure.profiling.measure import NetworkFile, measure_network
from msd.measure.profiling.result import NetworkCosts
from msd.measure.profiling.winograd import measure_tiles
from msd.models.structure import load_structure
from msd.run.runners import adapter
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from msd.run.runners.timings import Effort, interleaved
from scripts.figures import save_figures
from scripts.judge_full_size import write_random
from scripts.lab.measured import machine
from scripts.lab.nvidia_smi import gpu_name, gpu_used

COMPONENTS = ("unet", "vae_decoder", "text_encoder")
WARMUPS = 3
ENGINES: dict[str, Callable[[Path, Conditions], ProcessRunner]] = {
    "webgpu": WebGpuProcess,
    "litert-gpu": GpuProcess,
}
PACKAGES = ("ai-edge-litert", "wgpu", "numpy")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("models", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--component", "components", multiple=True, default=COMPONENTS, show_default=True)
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option("--repeats", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--ablation", is_flag=True, help="The optimisations one after the other, too.")
@click.option("--winograd", is_flag=True, help="Winograd's tile sizes, too.")
@click.option("--peer/--no-peer", default=True, show_default=True, help="LiteRT's delegate in turn.")
@click.option("--json", "as_json", is_flag=True, help="Print each row as JSON on stdout.")
def main(
    folder: Path,
    models: tuple[str, ...],
    output: Path,
    components: tuple[str, ...],
    recipe: str,
    repeats: int,
    ablation: bool,
    winograd: bool,
    peer: bool,
    as_json: bool,
) -> None:
    """Write a row for each component of MODELS, whose structures are in FOLDER, as JSON to OUTPUT."""
    if output.is_dir():
        output /= f"kernels-{slug(adapter.find().name)}.json"
    report = json.loads(output.read_text()) if output.exists() else described(PACKAGES)
    report["commands"].append("python -m scripts.lab.bench_engine " + " ".join(sys.argv[1:]))
    for model, name in itertools.product(models, components):
        with tempfile.TemporaryDirectory() as temporary:
            file = NetworkFile(name, Path(temporary) / f"{name}.tflite")
            row = {"model": model, "component": name, "recipe": recipe}
            row |= write_random(load_structure(folder / model / f"{name}.zip"), file.path, name, recipe)
            report["rows"].append(row)
            for part in parts(file, repeats, ablation, winograd, peer):
                row |= part()
                save_figures(output, report, "msd/gpu", indent=1)
            say(row)
            if as_json:
                click.echo(json.dumps(row))


def slug(name: str) -> str:
    """Return a name of a GPU as part of a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def described(packages: Sequence[str]) -> dict[str, Any]:
    """Return an empty report of this machine and of the versions of packages."""
    return {
        "commands": [],
        "machine": machine(),
        "gpu": gpu_name(),
        "adapter": adapter.find().name,
        "versions": {package: version(package) for package in packages},
        "rows": [],
    }


def parts(
    file: NetworkFile, repeats: int, ablation: bool, winograd: bool, peer: bool
) -> list[Callable[[], dict[str, Any]]]:
    """Return the measurements to make, each of which returns a part of the row."""
    conditions = Conditions(precision="fp16", adapter=adapter.find())
    measured: list[Callable[[], dict[str, Any]]] = [partial(in_turn, file, conditions, repeats, peer)]
    measured.append(partial(kernels, file, conditions, repeats))
    if ablation:
        measured.append(partial(optimisations, file, conditions, repeats))
    if winograd:
        measured.append(partial(tile_sizes, file, conditions, repeats))
    return measured


def in_turn(file: NetworkFile, conditions: Conditions, repeats: int, peer: bool) -> dict[str, Any]:
    """Return both engines' seconds, memory and distances from the CPU's float arithmetic."""
    inputs, expected = reference(file.path)
    engines, found = [name for name in ENGINES if peer or name == "webgpu"], dict[str, Any]()
    opened: list[ProcessRunner] = []
    try:
        for name in engines:
            used = gpu_used()
            opened.append(ENGINES[name](file.path, conditions))
            outputs = opened[-1].run(inputs)
            found[name] = first_facts(opened[-1], gpu_used() - used, distances(expected, outputs))
        runs = [partial(once, runner, inputs) for runner in opened]
        times = take_turns(runs, repeats)
    finally:
        for runner in opened:
            runner.__exit__(None, None, None)
    for name, seconds in zip(engines, times, strict=True):
        found[name] |= {"median_seconds": median(seconds), "run_seconds": seconds}
    if peer:
        first, other = (found[name]["median_seconds"] for name in engines)
        found["litert-gpu / webgpu"] = round(other / first, 3)
    found["webgpu, fp32, dB"] = full_precision(file, conditions, inputs, expected)
    return found


def take_turns(runs: Sequence[Callable[[], float]], repeats: int) -> list[list[float]]:
    """Return the seconds of `repeats` calls of each of `runs`, in turn, after warm-ups in turn."""
    warmups, measured = (Effort(count, 0, 0.0, float("inf")) for count in (WARMUPS, repeats))
    interleaved(runs, warmups, lambda turn, last: None)
    return interleaved(runs, measured, lambda turn, last: None)


def reference(path: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return random inputs, and the CPU's outputs in float arithmetic."""
    with Interpreter(path, float_weights=True) as cpu:
        inputs = random_inputs(cpu.inputs.values())
        return inputs, cpu.run(inputs)


def first_facts(runner: ProcessRunner, memory: int, decibels: dict[str, float]) -> dict[str, Any]:
    """Return what is known after the first run; `memory` is the GPU's, in bytes."""
    return {
        "placement": schema.to_json(runner.placement),
        "load_seconds": runner.load_seconds,
        "first_result_seconds": runner.load_seconds + runner.run_seconds[0],
        "gpu_bytes": memory,
        "process_bytes": runner.memory.peak,
        "dB": decibels,
    }


def once(runner: ProcessRunner, inputs: dict[str, Array]) -> float:
    """Return the seconds of one run."""
    runner.run(inputs)
    return runner.run_seconds[-1]


def full_precision(
    file: NetworkFile, conditions: Conditions, inputs: dict[str, Array], expected: dict[str, Array]
) -> dict[str, float]:
    """Return the distances of the kernels in float32."""
    single = Conditions(precision="fp32", adapter=conditions.adapter)
    with WebGpuProcess(file.path, single) as runner:
        return distances(expected, runner.run(inputs))


def distances(expected: dict[str, Array], found: dict[str, Array]) -> dict[str, float]:
    """Return the PSNR of each output."""
    return {name: round(psnr(expected[name], value), 1) for name, value in found.items()}


def kernels(file: NetworkFile, conditions: Conditions, repeats: int) -> dict[str, Any]:
    """Return what each dispatch costs."""
    costs: NetworkCosts = measure_network(file, conditions, repeats, told)
    return {"kernels": schema.to_json(costs) | {"file": file.path.name}}


def optimisations(file: NetworkFile, conditions: Conditions, repeats: int) -> dict[str, Any]:
    """Return the paper's Table 1, with the roofline of an Adreno 740."""
    made = ablate(file, conditions, repeats, find_device("adreno-740"), told)
    return {"ablation": schema.to_json(made)}


def tile_sizes(file: NetworkFile, conditions: Conditions, repeats: int) -> dict[str, Any]:
    """Return the paper's Table 2."""
    return {"winograd": schema.to_json(measure_tiles(file, conditions, repeats, told))}


def told(activity: str) -> None:
    """Print an activity on stderr."""
    click.echo(activity, err=True)


def say(row: dict[str, Any]) -> None:
    """Print a row on stderr."""
    click.echo(f"{row['model']} {row['component']}, {row['operations']} operations", err=True)
    for name in ENGINES:
        if name in row:
            each = row[name]
            click.echo(
                f"  {name}: {each['median_seconds'] * 1e3:.2f} ms, "
                f"{each['gpu_bytes'] / 1e9:.2f} GB of the GPU, "
                f"first result after {each['first_result_seconds']:.1f} s, {each['dB']} dB to the CPU",
                err=True,
            )
    click.echo(f"  litert-gpu / webgpu: {row.get('litert-gpu / webgpu')}", err=True)
    click.echo(f"  webgpu in fp32: {row['webgpu, fp32, dB']} dB to the CPU", err=True)
    for each in row.get("ablation", {}).get("rows", ()):
        counted = each["counted"]["seconds"]
        click.echo(
            f"  {each['name']}: {median(each['run_seconds']) * 1e3:.2f} ms, counted {counted * 1e3:.1f} ms",
            err=True,
        )


if __name__ == "__main__":
    main()

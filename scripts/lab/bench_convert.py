"""Measure the cost of a conversion against its lower bound and TensorFlow's own converter.

    make bench-convert        # → docs/results/bench-convert.json/first
    python -m scripts.lab.bench_convert build --model xl/sdxl-base --no-converter --no-scaling -o xl.json

Writes random checkpoints of full size under FOLDER (10 GB), runs every command in its own process, in turn,
and writes medians. TensorFlow's converter needs an idle machine with 16 GB of memory.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from msd.bundle import open_bundle
from msd.files.packages import installed_versions
from msd.graph import tflite
from scripts.figures import save_figures
from scripts.lab.measured import Measured, measured
from scripts.make_random_checkpoint import Random, models, read_config, write_diffusers

PYTHON = Path(sys.executable)
CONVERT = (PYTHON, "-m", "msd.cli", "convert")
ASKED = {
    "warm / plain stream": 0.8,
    "cold / warm": 1.1,
    "largest bytes": 0.6e9,
    "seconds per billion, SDXL's U-Net / SD 2.1's": 1.1,
}
ASKED_OF_XL = {"warm / plain stream": 0.95, "largest bytes": 0.5e9}
XL = "xl/sdxl-base"

SDXL_BLOCKS: Mapping[str, Any] = {
    "block_out_channels": [320, 640, 1280],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "attention_head_dim": [5, 10, 20],
    "cross_attention_dim": 2048,
}
UNETS: Mapping[str, Mapping[str, Any]] = {
    "a third as wide": {"block_out_channels": [128, 256, 448, 448], "attention_head_dim": [2, 4, 7, 7]},
    "two thirds as wide": {"block_out_channels": [224, 448, 832, 832], "attention_head_dim": [4, 7, 13, 13]},
    "SD 2.1": {},
    "SDXL's, half as deep": {**SDXL_BLOCKS, "transformer_layers_per_block": [1, 2, 5]},
    "SDXL's": {**SDXL_BLOCKS, "transformer_layers_per_block": [1, 2, 10]},
}
"""U-Nets from 0.1 to 2.6 billion parameters, as changes of SD 2.1's configuration."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--model", type=click.Choice(models()), default="sd21-base", show_default=True)
@click.option(
    "--cold/--no-cold", default=True, help="Also convert without structures that were traced before."
)
@click.option("--converter/--no-converter", default=True, help="Also run TensorFlow's converter.")
@click.option("--scaling/--no-scaling", default=True, help="Also convert U-Nets of other sizes.")
def main(
    folder: Path, output: Path, repeats: int, model: str, cold: bool, converter: bool, scaling: bool
) -> None:
    """Write the measurements as JSON to OUTPUT and a table to stdout."""
    bench = Bench(folder.absolute(), model)
    report: dict[str, Any] = {
        "versions": installed_versions("tensorflow", "keras", "numpy", "ai-edge-litert", "safetensors"),
        "asked": ASKED_OF_XL if model == XL else ASKED,
        f"{model}, float16 to int8": bench.whole(repeats, cold),
        "sizes": bench.sizes(),
    }
    if converter:
        report["TFLiteConverter"] = {c: bench.against_converter(c) for c in ("vae_decoder", "text_encoder")}
    if scaling:
        report["U-Net by parameters"] = [bench.scaled(name, changes) for name, changes in UNETS.items()]
    save_figures(output, report, "graph_rewrites", "msd/conversion", "msd/graph")
    click.echo(json.dumps(report, indent=2))


class Bench:
    """Commands on a random checkpoint of a public configuration, written to `folder` if it is missing."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.source, self.out = folder, folder / Path(model).name, folder / "out"
        self.cache = folder / "cache"
        self.env = {**os.environ, "MSD_CACHE": str(self.cache), "PYTHONPATH": str(Path.cwd())}
        if not (self.source / "model_index.json").exists():
            shutil.rmtree(self.source, ignore_errors=True)
            write_diffusers(self.source, read_config(model), Random(0, "float16"))

    def whole(self, repeats: int, cold: bool) -> dict[str, Any]:
        """Return the cost of converting, warm and if asked cold, and of the plain stream, in turn."""
        runs: dict[str, list[Measured]] = {"plain stream": [], **({"cold": []} if cold else {}), "warm": []}
        self.stream()
        for _ in range(repeats):
            runs["plain stream"].append(self.stream())
            if cold:
                runs["cold"].append(self.convert(self.source, cold=True))
            runs["warm"].append(self.convert(self.source))
        rows: dict[str, Any] = {name: median(each) for name, each in runs.items()}
        pairs = [("warm", "plain stream"), *([("cold", "warm")] if cold else [])]
        ratios = {f"{a} / {b}": round(statistics.median(map(_ratio, runs[a], runs[b])), 2) for a, b in pairs}
        return {**rows, **ratios, "repeats": repeats}

    def convert(self, source: Path, *options: str, cold: bool = False) -> Measured:
        """Convert into an empty folder, with the structure cache of the last time unless `cold`."""
        shutil.rmtree(self.out, ignore_errors=True)
        if cold:
            shutil.rmtree(self.cache, ignore_errors=True)
        return self.said("conversion", [*CONVERT, source, "-o", self.out, "--recipe", "gpu-w8", *options])

    def stream(self) -> Measured:
        """Run `plain_stream.py`."""
        return self.said(
            "stream", [PYTHON, "scripts/lab/plain_stream.py", self.source, self.folder / "plain"]
        )

    def said(self, what: str, command: Sequence[str | Path]) -> Measured:
        """Run a command, and print what it took on stderr: a run that is cut off has said something."""
        found = measured(command, self.env)
        click.echo(f"{what}: {found}", err=True)
        return found

    def sizes(self) -> dict[str, Any]:
        """Return each converted file's bytes, those of its constants, and the share of everything else."""
        found = {}
        for component, file in open_bundle(self.out).manifest.components.items():
            path = self.out / file.file
            constants = constant_bytes(path)
            total = path.stat().st_size
            found[component] = {
                "bytes": total,
                "constants and scales": constants,
                "overhead": round(total / constants - 1, 5),
            }
        return found

    def against_converter(self, component: str) -> dict[str, Any]:
        """Return the cost of one component in msd, cold and warm, and in TensorFlow's converter."""
        cold = self.convert(self.source, "--component", component, cold=True)
        warm = self.convert(self.source, "--component", component)
        theirs = measured(
            [PYTHON, "scripts/lab/plain_converter.py", self.source, component, self.folder / "plain.tflite"],
            self.env,
        )
        return {
            "TFLiteConverter": asdict(theirs),
            "cold": asdict(cold),
            "warm": asdict(warm),
            "times faster, cold": round(theirs.seconds / cold.seconds, 1),
            "times faster, warm": round(theirs.seconds / warm.seconds, 1),
            "times less memory, cold": round(theirs.largest / cold.largest, 1),
            "times less memory, warm": round(theirs.largest / warm.largest, 1),
        }

    def scaled(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cost of a U-Net of another size, warm; its checkpoint is removed afterwards."""
        config = {part: dict(said) for part, said in read_config("sd21-base").items()}
        config["unet"] |= changes
        config["text_encoder"] |= {
            "hidden_size": config["unet"]["cross_attention_dim"],
            "num_hidden_layers": 1,
        }
        source = self.folder / "scaled"
        shutil.rmtree(source, ignore_errors=True)
        try:
            write_diffusers(source, config, Random(0, "float16"))
            self.convert(source, "--component", "unet")
            warm = self.convert(source, "--component", "unet")
        finally:
            shutil.rmtree(source, ignore_errors=True)
        parameters = sum(t.size for t in tflite.read(self.out / "unet.tflite").main.tensors() if t.data)
        return {
            "U-Net": name,
            "parameters": parameters,
            **asdict(warm),
            "seconds per billion": round(warm.seconds / parameters * 1e9, 2),
        }


def _ratio(a: Measured, b: Measured) -> float:
    return a.seconds / b.seconds


def median(runs: list[Measured]) -> dict[str, Any]:
    """Return the median of each figure and every run's seconds."""

    def middle(figure: Callable[[Measured], float]) -> float:
        return statistics.median(figure(run) for run in runs)

    return {
        "seconds": middle(lambda run: run.seconds),
        "largest": middle(lambda run: run.largest),
        "together": middle(lambda run: run.together),
        "every run": [run.seconds for run in runs],
    }


def constant_bytes(path: Path) -> int:
    """Return the bytes of all constants of a file, each once, and of the scales of those quantised."""
    tensors = [t for t in tflite.read(path).main.tensors() if t.data is not None]
    places = {t: t.weights.load().__array_interface__["data"][0] for t in tensors}
    stored = {places[t]: t.weights.load().nbytes for t in tensors}
    scales = {places[t]: t.quant.scale.nbytes for t in tensors if t.quant}
    return sum(stored.values()) + sum(scales.values())


if __name__ == "__main__":
    main()

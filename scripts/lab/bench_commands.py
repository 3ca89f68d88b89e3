"""Time whole commands that make an image, msd's and stable-diffusion.cpp's, in turn.

    python -m scripts.make_random_bundle sd21-base build/bundle
    python -m scripts.make_random_checkpoint single-file build/sd21.safetensors --model sd21-base
    python -m scripts.lab.bench_commands build/bundle build/sd21.safetensors -o found.json

Needs a GPU, and the package cyllama-vulkan, which has stable-diffusion.cpp's Vulkan backend. Both generate
one image of 512x512 in 20 steps with guidance: msd from int8 files in float16, stable-diffusion.cpp from the
checkpoint's float16 with its flash attention. A command is timed from the start of its process to its end,
with the bytecode of its Python that its first round leaves, as pip's installations have it.
Before that the GPU is found, which takes long once after the machine starts, and the U-Net is opened and run
once, with an empty cache and then twice with what that has left.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import click

from msd.run.runners.backends.webgpu import WebGpuProcess, find_adapter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from scripts.figures import save_figures
from scripts.lab.bench_engine import described

PACKAGES = ("cyllama-vulkan", "ai-edge-litert", "wgpu", "wgpudawn", "numpy")
CONDITIONS = Conditions(precision="fp16")
PROMPT = "a red fox in the snow"
OURS, THEIRS = "msd generate", "cyllama.sd txt2img"
GENERATING = {
    OURS: re.compile(r'"seconds": ([\d.]+)'),
    THEIRS: re.compile(r"Generated \d+ image\(s\) in ([\d.]+)s"),
}
"""Where a command says how long generating took: msd's is denoising alone."""


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True))
@click.argument("checkpoint", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--rounds", type=click.IntRange(2, 100), default=4, show_default=True)
def main(bundle: Path, checkpoint: Path, output: Path, rounds: int) -> None:
    """Run each command ROUNDS times and write their seconds as JSON to OUTPUT.

    Medians leave out the first round, which finds no cache.
    """
    with tempfile.TemporaryDirectory() as work:
        os.environ["MSD_CACHE"] = f"{work}/opening"
        begun = time.perf_counter()
        find_adapter(CONDITIONS)
        finding = round(time.perf_counter() - begun, 3)
        opened = [opening(bundle / "unet.tflite") for _ in range(3)]
        click.echo(f"finding: {finding}, opening: {opened}", err=True)
        os.environ["MSD_CACHE"] = f"{work}/commands"
        commands = {OURS: ours(bundle, Path(work)), THEIRS: theirs(checkpoint, Path(work))}
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                rows[name].append(timed(name, command))
                click.echo(f"{name}: {rows[name][-1]}", err=True)
    report = described(PACKAGES) | {"finding the GPU": finding, "opening the U-Net": opened, "runs": rows}
    report["median seconds, without the first"] = medians = {
        name: median(row["seconds"] for row in found[1:]) for name, found in rows.items()
    }
    report["msd's share"] = round(medians[OURS] / medians[THEIRS], 3)
    save_figures(output, report, "msd/gpu", "msd/run", indent=1)


def opening(path: Path) -> dict[str, Any]:
    """Return the seconds from opening a file to its first result, and those of the parts of opening."""
    begun = time.perf_counter()
    with WebGpuProcess(path, replace(CONDITIONS, adapter=find_adapter(CONDITIONS))) as process:
        process.run(random_inputs(process.inputs.values()))
        parts = {phase.name: round(phase.seconds, 3) for phase in process.opening.phases}
        return {"seconds": round(time.perf_counter() - begun, 3), "parts": parts}


def ours(bundle: Path, work: Path) -> list[str]:
    """Return msd's command."""
    words = ["generate", str(bundle), "-p", PROMPT, "--backend", "webgpu", "--precision", "fp16"]
    code = "from msd.cli import msd; msd()"
    return [
        sys.executable,
        "-c",
        code,
        *words,
        "--steps",
        "20",
        "--json",
        "-o",
        str(work / "ours.png"),
        "--force",
    ]


def theirs(checkpoint: Path, work: Path) -> list[str]:
    """Return stable-diffusion.cpp's command."""
    words = ["--model", str(checkpoint), "--prompt", PROMPT, "--output", str(work / "theirs.png")]
    size = ["--width", "512", "--height", "512", "--steps", "20", "--cfg-scale", "7.5", "--seed", "0"]
    return [sys.executable, "-m", "cyllama.sd", "txt2img", *words, *size, "--diffusion-fa"]


def timed(name: str, command: list[str]) -> dict[str, Any]:
    """Return the seconds of a command, and of generating as it prints them."""
    keeping = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=keeping)
    seconds = round(time.perf_counter() - begun, 3)
    printed = done.stdout + done.stderr
    if done.returncode:
        raise click.ClickException(f"{name} ended with {done.returncode}: {printed[-1000:]}")
    said = GENERATING[name].search(printed)
    return {"seconds": seconds, "generating": float(said[1]) if said else None}


if __name__ == "__main__":
    main()

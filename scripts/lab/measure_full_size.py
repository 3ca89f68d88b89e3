"""Measure a checkpoint's conversion against diffusers and transformers, each component once, at its own size.

    python scripts/make_random_checkpoint.py diffusers build/sd21 --model sd21-base
    python scripts/lab/measure_full_size.py build/sd21 -o docs/results/full-size-parity.json

CPU only, float arithmetic (the GPU's). Needs the test extra and, for Stable Diffusion 2.1, 12 GB of memory.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

import graph_rewrites
from msd.bundle import open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.conversion.job import open_job
from msd.conversion.sources.formats import open_checkpoint
from msd.graph.parity import psnr
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.timestep import embed_timestep
from scripts.figures import save_figures
from scripts.lab.measure_parity import VARIANTS
from tests.reference import Array, draw, reference


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--component", "components", multiple=True, default=STABLE_DIFFUSION.names)
@click.option("--name", default="random weights", show_default=True, help="What the checkpoint is.")
def main(source: Path, output: Path, components: tuple[str, ...], name: str) -> None:
    """Write the PSNR of each component, in dB, as JSON to OUTPUT."""
    rows: dict[str, Any] = {}
    for component in components:
        rows[component] = measure(source, component)
        click.echo(f"{component}: {json.dumps(rows[component])}", err=True)
        gc.collect()
    checkpoint = open_checkpoint(source)
    report = {
        "command": "python " + " ".join(sys.argv),
        "checkpoint": name,
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {
            n: version(n) for n in ("diffusers", "transformers", "torch", "ai-edge-litert", "numpy")
        },
        "latent": list(checkpoint.configs["unet"].size),
        "components": rows,
    }
    save_figures(output, report, "graph_rewrites", "msd/conversion")


def measure(source: Path, component: str) -> dict[str, Any]:
    """Return for each variant the PSNR, the file's bytes and the seconds of one run."""
    checkpoint = open_checkpoint(source)
    network = open_job(source, Settings(rules=())).networks[component]
    inputs = draw(network.inputs, checkpoint.configs["text_encoder"].vocabulary, np.random.default_rng(0))
    wanted = expected(source, component, inputs)
    if "timestep" in inputs:
        unet, step = checkpoint.configs["unet"], float(inputs["timestep"][0])
        inputs["timestep_embedding"] = embed_timestep(
            step, unet.channels[0], unet.cosine_first, unet.frequency_shift
        )[None]
    return {name: one(source, component, inputs, wanted, *variant) for name, variant in VARIANTS.items()}


def expected(source: Path, component: str, inputs: dict[str, Array]) -> Array:
    """Return the original's outputs for `inputs`."""
    import torch
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextModel

    kind: Any = {"text_encoder": CLIPTextModel, "unet": UNet2DConditionModel, "vae_decoder": AutoencoderKL}
    folder = {"vae_decoder": "vae"}.get(component, component)
    module = kind[component].from_pretrained(source / folder, torch_dtype=torch.float32).eval()
    outputs: Array = reference({folder: module}, component, inputs)
    return outputs


def one(
    source: Path,
    component: str,
    inputs: dict[str, Array],
    wanted: Array,
    recipe: str,
    without: tuple[str, ...],
) -> dict[str, Any]:
    """Convert in one way and run once."""
    rules = [rule for rule in graph_rewrites.load() if rule.name not in without]
    with tempfile.TemporaryDirectory() as folder:
        convert(source, Path(folder) / "out", Settings(rules, find_recipe(recipe), (component,)))
        path = open_bundle(Path(folder) / "out").path(component)
        with Interpreter(path, float_weights=True) as network:
            fed = {k: np.ascontiguousarray(inputs[k]).reshape(p.shape) for k, p in network.inputs.items()}
            begun = time.perf_counter()
            (found,) = network.run(fed).values()
            seconds = time.perf_counter() - begun
        return {
            "psnr": round(psnr(wanted, found.reshape(wanted.shape)), 1),
            "bytes": path.stat().st_size,
            "run_seconds": round(seconds, 1),
        }


if __name__ == "__main__":
    main()

"""Measure a checkpoint's conversion against diffusers and transformers, each component once, at its own size.

    python scripts/make_random_checkpoint.py diffusers build/sd21 --model sd21-base
    python scripts/lab/measure_full_size.py build/sd21 -o docs/results/full-size-parity.json/sd21-base

CPU only, float arithmetic (the GPU's). Needs the test extra and 12 GB of memory for Stable Diffusion 2.1,
22 for its XL.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
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
from msd.models.families.calls import sinusoids
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.numbers import Numbers
from msd.run.runtime.timestep import embed_timestep
from scripts.figures import save_figures
from scripts.lab.full_size_reference import Array, expected
from scripts.lab.measure_parity import VARIANTS
from tests.reference import draw

COMPONENTS = ("text_encoder", "text_encoder_2", "unet", "vae_decoder")
SIZES = "time_ids_embedding"


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option(
    "--component",
    "components",
    multiple=True,
    help="A component to measure; without it all that generate.  [repeatable]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=click.Choice([*VARIANTS]),
    default=[*VARIANTS],
    help="A way to convert; without it all.  [repeatable]",
)
@click.option("--name", default="random weights", show_default=True, help="What the checkpoint is.")
def main(
    source: Path, output: Path, components: tuple[str, ...], variants: tuple[str, ...], name: str
) -> None:
    """Write the PSNR of each component, in dB, as JSON to OUTPUT."""
    rows: dict[str, Any] = {}
    checkpoint = open_checkpoint(source)
    for component in components or [each for each in COMPONENTS if each in checkpoint.configs]:
        rows[component] = measure(source, component, variants)
        click.echo(f"{component}: {json.dumps(rows[component])}", err=True)
        gc.collect()
    report = {
        "checkpoint": name,
        "transformers": version("transformers"),
        "latent": list(checkpoint.configs["unet"].size),
        "components": rows,
    }
    save_figures(output, report, "graph_rewrites", "msd/conversion")


def measure(source: Path, component: str, variants: Sequence[str]) -> dict[str, Any]:
    """Return for each variant the PSNR of each output, the file's bytes and the seconds of one run."""
    inputs = drawn(source, component)
    wanted = expected(source, component, inputs)
    gc.collect()
    return {name: one(source, component, inputs, wanted, *VARIANTS[name]) for name in variants}


def drawn(source: Path, component: str) -> dict[str, Array]:
    """Return inputs of a component, those that count steps and sizes beside their sinusoids."""
    checkpoint = open_checkpoint(source)
    network = open_job(source, Settings(rules=())).networks[component]
    vocabulary = checkpoint.configs["text_encoder"].vocabulary
    inputs = draw(network.inputs, vocabulary, np.random.default_rng(0))
    if "tokens" in inputs:
        inputs["tokens"][:, inputs["tokens"].shape[1] // 2] = vocabulary - 1  # CLIP's end token
    if "timestep" in inputs:
        unet, step = checkpoint.configs["unet"], float(inputs["timestep"][0])
        inputs["timestep_embedding"] = embed_timestep(
            step, unet.channels[0], unet.cosine_first, unet.frequency_shift
        )[None]
    if SIZES in inputs:
        sizes, numbers = sinusoids("sizes"), Numbers(step, 0.0, *(8 * side for side in unet.size))
        inputs["time_ids"] = numbers.values(sizes)[None]
        inputs[SIZES] = numbers.input(sizes, inputs[SIZES].shape[1])[None]
    return inputs


def one(
    source: Path,
    component: str,
    inputs: dict[str, Array],
    wanted: Mapping[str, Array],
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
            found = network.run(fed)
            seconds = time.perf_counter() - begun
        distances = {k: round(psnr(v, found[k].reshape(v.shape)), 1) for k, v in wanted.items()}
        return {
            "psnr": distances if len(distances) > 1 else next(iter(distances.values())),
            "bytes": path.stat().st_size,
            "run_seconds": round(seconds, 1),
        }


if __name__ == "__main__":
    main()

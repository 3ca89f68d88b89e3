"""Make a bundle with random weights of a model that msd ships the structures of; it needs no TensorFlow.

    python -m scripts.make_random_bundle sd21-base build/sd21-random --recipe gpu-w8

It generates noise at the cost of Stable Diffusion. The tokenizer is CLIP's.
"""

from __future__ import annotations

import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

import graph_rewrites
import msd
from msd.bundle import (
    MANIFEST,
    Configuration,
    Conversion,
    ConvertedFile,
    Manifest,
    RecipeFacts,
    Source,
    dump_manifest,
)
from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.manifest import describe_file
from msd.conversion.sources.clip_tokenizer import clip_tokenizer
from msd.conversion.trace import with_weights
from msd.graph import tflite
from msd.graph.rewrite import apply
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER, UNET, VAE_DECODER
from msd.models.networks import networks, read_configs, size_of
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from scripts.full_size_structures import drawn

SCHEDULER = """{
  "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "num_train_timesteps": 1000, "set_alpha_to_one": false, "steps_offset": 1, "prediction_type": "epsilon"
}
"""


@click.command()
@click.argument("model")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--recipe", default="gpu-w8", show_default=True)
def main(model: str, out: Path, recipe: str) -> None:
    """Convert MODEL, which configs/models/ describes, with random weights, to OUT."""
    public = tomllib.loads(Path(f"configs/models/{model}.toml").read_text())
    configs = read_configs(STABLE_DIFFUSION, public)
    every = networks(STABLE_DIFFUSION, configs, size_of(STABLE_DIFFUSION, configs))
    (out / "tokenizer").mkdir(parents=True)
    (out / "scheduler").mkdir()
    for name, read in clip_tokenizer("!").items():
        (out / "tokenizer" / name).write_bytes(read())
    (out / "scheduler" / "scheduler_config.json").write_text(SCHEDULER)
    with ProcessPoolExecutor(len(STABLE_DIFFUSION.required)) as pool:
        tasks = {
            name: pool.submit(write, structure_of(every[name]), out, name, recipe)
            for name in STABLE_DIFFUSION.required
        }
        parts = {name: task.result() for name, task in tasks.items()}
    settings = Configuration(
        height=512,
        width=512,
        batch=1,
        recipe=RecipeFacts(recipe, find_recipe(recipe).digest),
        components={
            TEXT_ENCODER.name: public[TEXT_ENCODER.part.folder],
            UNET.name: {"cosine_first": True, "frequency_shift": 0.0},
            VAE_DECODER.name: public[VAE_DECODER.part.folder],
        },
    )
    source = Source("random", model, {})
    manifest = Manifest(
        msd=msd.__version__,
        source=source,
        configuration=settings,
        components=parts,
        conversion=Conversion(0.0, 0),
    )
    (out / MANIFEST).write_text(dump_manifest(manifest))


def write(loaded: Structure, out: Path, name: str, recipe: str) -> ConvertedFile:
    """Write a component and return its manifest entry."""
    chosen = find_recipe(recipe)
    made = with_weights(loaded, drawn(loaded))
    apply(made.main, [rule for rule in graph_rewrites.load() if rule.name not in chosen.without])
    encode(made.main, chosen, name)
    path = out / f"{name}.tflite"
    tflite.write(made, path)
    return describe_file(path, "", "gpu")


if __name__ == "__main__":
    main()

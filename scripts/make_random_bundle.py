"""Make a bundle from structures, with random weights, on a machine without TensorFlow.

    python scripts/judge_full_size.py trace build sd21-base            # needs TensorFlow; less than 1 MB
    python scripts/make_random_bundle.py build sd21-base build/sd21-random --recipe gpu-w8

It generates noise at the cost of Stable Diffusion. The tokenizer is CLIP's.
"""

from __future__ import annotations

import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

import graph_rewrites
import msd
from msd import tflite
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
from msd.conversion.manifest import describe_file
from msd.conversion.trace import with_weights
from msd.encoding.encode import encode
from msd.encoding.recipe import find_recipe
from msd.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER, UNET, VAE_DECODER
from msd.models.structure import load_structure
from msd.rewrite import apply
from msd.sources.clip_tokenizer import clip_tokenizer
from scripts.full_size_structures import drawn

SCHEDULER = """{
  "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "num_train_timesteps": 1000, "set_alpha_to_one": false, "steps_offset": 1, "prediction_type": "epsilon"
}
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("model")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--recipe", default="gpu-w8", show_default=True)
def main(folder: Path, model: str, out: Path, recipe: str) -> None:
    """Convert the structures of MODEL in FOLDER with random weights, to OUT."""
    (out / "tokenizer").mkdir(parents=True)
    (out / "scheduler").mkdir()
    for name, read in clip_tokenizer("!").items():
        (out / "tokenizer" / name).write_bytes(read())
    (out / "scheduler" / "scheduler_config.json").write_text(SCHEDULER)
    with ProcessPoolExecutor(len(STABLE_DIFFUSION.required)) as pool:
        tasks = {
            n: pool.submit(write, folder / model / f"{n}.zip", out, n, recipe)
            for n in STABLE_DIFFUSION.required
        }
        parts = {name: task.result() for name, task in tasks.items()}
    public = tomllib.loads(Path(f"configs/models/{model}.toml").read_text())
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


def write(structure: Path, out: Path, name: str, recipe: str) -> ConvertedFile:
    """Write a component and return its manifest entry."""
    loaded, chosen = load_structure(structure), find_recipe(recipe)
    made = with_weights(loaded, drawn(loaded))
    apply(made.main, [rule for rule in graph_rewrites.load() if rule.name not in chosen.without])
    encode(made.main, chosen, name)
    path = out / f"{name}.tflite"
    tflite.write(made, path)
    return describe_file(path, "", "gpu")


if __name__ == "__main__":
    main()

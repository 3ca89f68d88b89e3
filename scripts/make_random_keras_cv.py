"""Write a folder of keras-cv's four .h5 files at full size, with random weights, one array at a time.

    python scripts/make_random_keras_cv.py build/random-keras-cv --model sd21-base

The arrangement is that of keras-cv's own networks as Keras's older H5 writer saves them, and so of the files
that keras-cv downloads. Weights are normal with variance 1/fan-in, norms near one, from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np

from msd.conversion.sources.keras_cv.networks import layer_variables
from msd.graph.ir.weights import Array
from msd.models.trace import unallocated
from msd.run.runtime.tokenizer_files import LENGTH

PIXELS = 512
MODELS = ("sd21-base", "sd14")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--model", type=click.Choice(MODELS), default=MODELS[0], show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(folder: Path, model: str, seed: int) -> None:
    """Write the files of Stable Diffusion 2.1 base or 1.4 to FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for name, make in constructors(model == "sd21-base"):
        with unallocated():
            write(folder / name, make(), random)
        click.echo(f"{folder / name}: {(folder / name).stat().st_size / 1e9:.2f} GB", err=True)


def constructors(second: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each file's name and a function that builds its keras-cv network."""
    with unallocated():
        from keras_cv.src.models.stable_diffusion import decoder, diffusion_model, image_encoder, text_encoder

    text = text_encoder.TextEncoderV2 if second else text_encoder.TextEncoder
    unet = diffusion_model.DiffusionModelV2 if second else diffusion_model.DiffusionModel
    kept = {"download_weights": False}
    yield "text_encoder_v2_1.h5" if second else "kcv_encoder.h5", lambda: text(LENGTH, **kept)
    yield (
        "diffusion_model_v2_1.h5" if second else "kcv_diffusion_model.h5",
        lambda: unet(PIXELS, PIXELS, LENGTH, **kept),
    )
    yield "kcv_decoder.h5", lambda: decoder.Decoder(PIXELS, PIXELS, **kept)
    yield "vae_encoder.h5", lambda: image_encoder.ImageEncoder(**kept)


def write(path: Path, model: Any, random: np.random.Generator) -> None:
    """Write random weights of every layer of `model`, whose variables need not exist."""
    from keras.src.legacy.saving.legacy_h5_format import save_attributes_to_hdf5_group

    with h5py.File(path, "w") as file:
        save_attributes_to_hdf5_group(file, "layer_names", [layer.name.encode() for layer in model.layers])
        for layer in model.layers:
            group, variables = file.create_group(layer.name), layer_variables(layer)
            save_attributes_to_hdf5_group(group, "weight_names", [f"{v.path}:0".encode() for v in variables])
            for variable in variables:
                group[f"{variable.path}:0"] = draw(variable, random)


def draw(variable: Any, random: np.random.Generator) -> Array:
    """Return float32 values with a distribution like that of trained ones."""
    normal = random.standard_normal(variable.shape, np.float32)
    if variable.name == "gamma":
        return 1 + normal / 10
    fan_in = float(np.prod(variable.shape[:-1]))
    scale = {"kernel": fan_in**-0.5, "embeddings": 0.02}.get(variable.name, 0.1)
    return normal * np.float32(scale)


if __name__ == "__main__":
    main()

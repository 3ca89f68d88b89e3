"""Folders of .h5 files that Keras writes, of keras-cv's networks with the weights of a diffusers checkpoint.

The networks are keras-cv's own constructors and layers at a tenth of the width of the U-Net, and a quarter of
the decoder's.
"""

from __future__ import annotations

import builtins
import subprocess
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from msd.conversion.sources import h5
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.keras_cv.networks import ordered_variables
from msd.conversion.sources.keras_cv.order import ORDERS
from msd.run.runtime.tokenizer_files import LENGTH
from tests import checkpoints
from tests.keras_cv_networks import built_once, seeing
from tests.reference import Array

SECOND = checkpoints.vary(
    checkpoints.SD21,
    text_encoder={
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "vocab_size": 49408,
    },
    unet={
        "attention_head_dim": [1, 1, 2, 2],
        "block_out_channels": [32, 64, 128, 128],
        "cross_attention_dim": 128,
        "norm_num_groups": 32,
        "sample_size": 64,
    },
    vae={"block_out_channels": [32, 64, 128, 128], "norm_num_groups": 32},
)
FIRST = checkpoints.vary(
    SECOND,
    text_encoder={"hidden_act": "quick_gelu"},
    unet={"attention_head_dim": 8, "use_linear_projection": False},
)
FORMS = {"second": SECOND, "first": FIRST}
"""Stable Diffusion 2.1 base and 1.4, as diffusers configures them, narrow."""

FILES = {"text_encoder": "a.h5", "unet": "b.h5", "vae_decoder": "c.h5", "vae_encoder": "e.h5"}


@contextmanager
def narrow() -> Iterator[None]:
    """Within, keras-cv's classes make narrow networks of two layers of text."""
    from keras_cv.src.models.stable_diffusion import decoder, diffusion_model, image_encoder, text_encoder

    def each(module: Any, *classes: str, **names: Any) -> None:
        for name in classes:
            patch.setattr(module, name, seeing(getattr(module, name), **names))

    with pytest.MonkeyPatch.context() as patch:
        each(text_encoder, "TextEncoder", "TextEncoderV2", **_text_names(text_encoder))
        each(diffusion_model, "DiffusionModel", "DiffusionModelV2", **_unet_names(diffusion_model))
        for module, name in ((decoder, "Decoder"), (image_encoder, "ImageEncoder")):
            each(module, name, **_divided(module, 4, "ResnetBlock", "AttentionBlock", "PaddedConv2D"))
        yield


@contextmanager
def indexed_once() -> Iterator[None]:
    """Within, a file that was indexed, by any of its names, is not indexed again: that takes a process."""
    known: dict[tuple[int, ...], subprocess.CompletedProcess[bytes]] = {}
    run_index = h5.run_index

    def known_or_run(path: Path) -> subprocess.CompletedProcess[bytes]:
        found = path.stat()
        key = found.st_ino, found.st_size, found.st_mtime_ns
        if key not in known:
            known[key] = run_index(path)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(h5, "run_index", known_or_run)
        yield


def models(second: bool, latent: tuple[int, int]) -> dict[str, Any]:
    """Return keras-cv's four models, which take pictures of `latent` cells; call this within `narrow()`.

    The encoder is that of moments, without the last layer, which keeps the mean and scales it.
    """
    with built_once():
        return _models(second, latent)


def _models(second: bool, latent: tuple[int, int]) -> dict[str, Any]:
    import keras
    from keras_cv.src.models.stable_diffusion import decoder, diffusion_model, image_encoder, text_encoder

    encoder = image_encoder.ImageEncoder(download_weights=False)

    height, width = (8 * cells for cells in latent)
    text = text_encoder.TextEncoderV2 if second else text_encoder.TextEncoder
    unet = diffusion_model.DiffusionModelV2 if second else diffusion_model.DiffusionModel
    return {
        "text_encoder": text(LENGTH, download_weights=False),
        "unet": unet(height, width, LENGTH, download_weights=False),
        "vae_decoder": decoder.Decoder(height, width, download_weights=False),
        "vae_encoder": keras.Sequential(encoder.layers[:-1]),
    }


def assign(made: Mapping[str, Any], checkpoint: Checkpoint) -> None:
    """Give keras-cv's models the weights of a checkpoint whose names are diffusers'."""
    for component, model in made.items():
        order = ORDERS[component](checkpoint.configs[component])
        for variable, slot in zip(ordered_variables(model), order, strict=True):
            value = checkpoint.weights[component][slot.name].load()
            variable.assign(_as_keras(variable, value))


def write(folder: Path, made: Mapping[str, Any]) -> None:
    """Write the models' weights as Keras 2 did and as keras-cv's are published."""
    from keras.src.legacy.saving.legacy_h5_format import save_weights_to_hdf5_group

    folder.mkdir()
    for component, model in made.items():
        with h5py.File(folder / FILES[component], "w") as file:
            save_weights_to_hdf5_group(file, model)


def write_layers(path: Path, layers: Mapping[str, Mapping[str, Array]], user_block: int = 0) -> None:
    """Write arrays by name of the layer and of the weight, arranged as Keras does."""
    with h5py.File(path, "w", userblock_size=user_block) as file:
        file.attrs["layer_names"] = [name.encode() for name in layers]
        for name, weights in layers.items():
            group = file.create_group(name)
            group.attrs["weight_names"] = [f"{name}/{weight}:0".encode() for weight in weights]
            for weight, value in weights.items():
                group[f"{name}/{weight}:0"] = value


def run(model: Any, inputs: Mapping[str, Array]) -> Array:
    """Return what a model of keras-cv makes of a converted network's inputs."""
    fed = {**inputs, "positions": np.arange(LENGTH)[None]} if "tokens" in inputs else dict(inputs)
    result: Array = np.asarray(model(fed if len(fed) > 1 else next(iter(fed.values()))))
    return result


def _as_keras(variable: Any, value: Array) -> Array:
    if variable.name != "kernel":
        return value
    turned = value.T if value.ndim == 2 else value.transpose(2, 3, 1, 0)
    return turned.reshape(variable.shape)


def _text_names(module: Any) -> dict[str, Any]:
    return {
        "range": lambda n: builtins.range(2),
        "CLIPEmbedding": lambda n, width, length: module.CLIPEmbedding(n, 128, length),
        "CLIPEncoderLayer": lambda width, heads, activation: module.CLIPEncoderLayer(
            128, 2, activation=activation
        ),
    }


def _unet_names(module: Any) -> dict[str, Any]:
    import keras

    def transformer(heads: int, size: int, fully_connected: bool) -> Any:
        channels = heads * size // 10
        heads = max(1, channels // 64) if fully_connected else heads
        return module.SpatialTransformer(heads, channels // heads, fully_connected=fully_connected)

    def symbol(shape: tuple[int, ...], name: str) -> Any:
        widths = {320: 32, 1024: 128, 768: 128}
        return keras.Input((*shape[:-1], widths.get(shape[-1], shape[-1])), batch_size=1, name=name)

    kept = {n: getattr(keras.layers, n) for n in ("Activation", "Concatenate", "GroupNormalization")}
    layers = types.SimpleNamespace(**kept, Input=symbol, Dense=lambda n: keras.layers.Dense(n // 10))
    return {
        **_divided(module, 10, "ResBlock", "Upsample", "PaddedConv2D"),
        "SpatialTransformer": transformer,
        "keras": types.SimpleNamespace(layers=layers),
    }


def _divided(module: Any, by: int, *classes: str) -> dict[str, Any]:
    """Return functions that make the layers, narrower; those of pictures, latents and moments stay."""

    def narrower(layer: Any) -> Any:
        return lambda n, *args, **settings: layer(n if n <= 8 else n // by, *args, **settings)

    return {name: narrower(getattr(module, name)) for name in classes}

"""A bundle whose three networks are a few real operations each, and the same arithmetic in NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msd.bundle import (
    Configuration,
    Conversion,
    ConvertedFile,
    Manifest,
    RecipeFacts,
    Source,
    dump_manifest,
    file_facts,
)
from msd.graph import tflite
from msd.tensor_spec import TensorSpec
from tests.clip_files import write_tokenizer
from tests.stable_diffusion import COMPONENTS

HEIGHT, WIDTH, CONTEXT, VOCABULARY = 4, 6, 5, 700
PERIOD = 300.0
SINUSOID_PERIOD = 10000 ** (1 / 3)
SCHEDULER = {
    "_class_name": "DDIMScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "set_alpha_to_one": False,
    "clip_sample": False,
    "steps_offset": 1,
    "prediction_type": "epsilon",
}


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(0, 0.7, shape).astype(np.float32)


def text_encoder(tokens: np.ndarray) -> np.ndarray:
    """Each token's row of a table, as (batch, 1, 77, CONTEXT)."""
    return weights(VOCABULARY, CONTEXT)[tokens][:, None]


def unet(latent: np.ndarray, timestep: np.ndarray, context: np.ndarray, period: float = PERIOD) -> np.ndarray:
    """Depends on all three inputs, on no two of them alike."""
    pooled = np.tanh(context).mean((1, 2)) @ weights(CONTEXT, 4)
    rhythm = np.cos(timestep / period).reshape(-1, 1, 1, 1)
    return np.tanh(latent @ weights(4, 4)) * rhythm + pooled[:, None, None]


def vae_decoder(latent: np.ndarray) -> np.ndarray:
    """An eight times larger picture in (-1, 1)."""
    return np.tanh(latent @ weights(4, 3)).repeat(8, 1).repeat(8, 2)


@dataclass(frozen=True)
class Recipe:
    function: Callable[..., Any]
    inputs: dict[str, tuple[tuple[int, ...], str]]
    output: str


def recipes(batch: int, sinusoids: bool) -> dict[str, Recipe]:
    """The three networks in TensorFlow, for `batch` rows of text and latents; the decoder takes one.

    With `sinusoids` the U-Net takes eight of them, sines first, and uses the second cosine.
    """
    import tensorflow as tf

    def tf_unet(latent: Any, context: Any, timestep: Any = None, timestep_embedding: Any = None) -> Any:
        pooled = tf.reduce_mean(tf.tanh(context), [1, 2]) @ weights(CONTEXT, 4)
        wave = timestep_embedding[:, 5] if sinusoids else tf.cos(timestep / PERIOD)
        rhythm = tf.reshape(wave, [-1, 1, 1, 1])
        mixed = tf.nn.conv2d(latent, weights(4, 4)[None, None], 1, "SAME")
        return tf.tanh(mixed) * rhythm + tf.reshape(pooled, [batch, 1, 1, 4])

    def tf_decoder(latent: Any) -> Any:
        colours = tf.tanh(tf.nn.conv2d(latent, weights(4, 3)[None, None], 1, "SAME"))
        return tf.image.resize(colours, [HEIGHT * 8, WIDTH * 8], "nearest")

    latent, context = (HEIGHT, WIDTH, 4), (batch, 1, 77, CONTEXT)
    time = {"timestep_embedding": ((batch, 8), "float32")} if sinusoids else {"timestep": ((1,), "float32")}
    table = weights(VOCABULARY, CONTEXT)
    return {
        "text_encoder": Recipe(
            lambda tokens: tf.reshape(tf.gather(table, tf.reshape(tokens, [-1])), context),
            {"tokens": ((batch, 77), "int32")},
            "context",
        ),
        "unet": Recipe(
            tf_unet,
            {"latent": ((batch, *latent), "float32"), "context": (context, "float32"), **time},
            "noise",
        ),
        "vae_decoder": Recipe(tf_decoder, {"latent": ((1, *latent), "float32")}, "image"),
    }


def write_network(recipe: Recipe, path: Path) -> ConvertedFile:
    """Convert one network to a .tflite file and describe it."""
    import tensorflow as tf

    module = tf.Module()
    specs = {name: tf.TensorSpec(shape, dtype, name) for name, (shape, dtype) in recipe.inputs.items()}
    function = tf.function(lambda **inputs: {recipe.output: recipe.function(**inputs)})
    concrete = function.get_concrete_function(**specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module)
    path.write_bytes(converter.convert())
    facts = file_facts(path)
    shape = tuple(concrete.structured_outputs[recipe.output].shape)
    inputs = tuple(TensorSpec(name, shape, dtype, "") for name, (shape, dtype) in recipe.inputs.items())
    outputs = (TensorSpec(recipe.output, shape, "float32", ""),)
    operations = len(tflite.read(path).main.ops)
    return ConvertedFile(path.name, facts.sha256, facts.bytes, operations, inputs, outputs)


def choose_scheduler(folder: Path, config: dict[str, Any]) -> None:
    """Give a bundle another scheduler, in its file and in its manifest."""
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(config))
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"scheduler": config}))


def write_bundle(folder: Path, batch: int = 1, sinusoids: bool = False) -> Path:
    """Write a whole bundle that `msd generate` can draw with."""
    folder.mkdir(parents=True, exist_ok=True)
    made = recipes(batch, sinusoids)
    components = {name: write_network(made[name], folder / f"{name}.tflite") for name in COMPONENTS}
    write_tokenizer(folder / "tokenizer")
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(SCHEDULER))
    source, size = Source("stand-in", "none", {}), (HEIGHT * 8, WIDTH * 8)
    unet_settings = {"cosine_first": False, "frequency_shift": 1.0} if sinusoids else {}
    configuration = Configuration(
        *size,
        batch,
        RecipeFacts("float32", ""),
        components={"text_encoder": {}, "unet": unet_settings, "vae_decoder": {}},
    )
    manifest = Manifest("0", source, configuration, components, Conversion(0.0, 0), scheduler=SCHEDULER)
    (folder / "manifest.json").write_text(dump_manifest(manifest))
    return folder

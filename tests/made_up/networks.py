"""The six networks of the made-up family, and their configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from msd.models.blocks import attend, conv, dense, layer_norm
from msd.models.networks import Size
from msd.models.trace import InputSpecs


@dataclass(frozen=True)
class WordsConfig:
    """A text encoder of one layer."""

    vocabulary: int
    length: int
    width: int

    def inputs(self, size: Size) -> InputSpecs:
        return {"tokens": ((size.batch, self.length), "int32")}

    @staticmethod
    def from_diffusers(config: Mapping[str, Any], folder: str) -> WordsConfig:
        return WordsConfig(**config)


@dataclass(frozen=True)
class PicturesConfig:
    """An encoder, or decoder, of one convolution and four pixels to a cell."""

    channels: int
    width: int

    @property
    def scale(self) -> int:
        return 4

    def inputs(self, size: Size) -> InputSpecs:
        return {"latent": ((size.batch, size.rows, size.columns, self.channels), "float32")}

    @staticmethod
    def from_diffusers(config: Mapping[str, Any], folder: str) -> PicturesConfig:
        return PicturesConfig(**config)


@dataclass(frozen=True)
class EncodedPicturesConfig(PicturesConfig):
    """The same, for the half that takes images."""

    def inputs(self, size: Size) -> InputSpecs:
        height, width = size.pixels
        return {"image": ((size.batch, height, width, 3), "float32")}

    @staticmethod
    def from_diffusers(config: Mapping[str, Any], folder: str) -> EncodedPicturesConfig:
        return EncodedPicturesConfig(**config)


RESIDUALS = tuple(f"residual_{i}" for i in range(13))


@dataclass(frozen=True)
class ControlConfig:
    """A network that steers every step by an image: as many outputs as a ControlNet has."""

    channels: int
    width: int

    def inputs(self, size: Size) -> InputSpecs:
        return {
            "latent": ((size.batch, size.rows, size.columns, self.channels), "float32"),
            "timestep": ((size.batch,), "float32"),
            "hint": ((size.batch, *size.pixels, 3), "float32"),
        }

    @staticmethod
    def from_diffusers(config: Mapping[str, Any], folder: str) -> ControlConfig:
        return ControlConfig(**config)


@dataclass(frozen=True)
class TransformerConfig:
    """A denoiser of one attention."""

    channels: int
    width: int
    context: int
    rows: int
    columns: int

    @property
    def size(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def multiple(self) -> int:
        return 1

    def inputs(self, size: Size) -> InputSpecs:
        latent = (size.batch, size.rows, size.columns, self.channels)
        return {
            "latent": (latent, "float32"),
            "timestep": ((size.batch,), "float32"),
            "context": ((size.batch, size.length, self.context), "float32"),
            "image_latent": (latent, "float32"),
            **dict.fromkeys(RESIDUALS, (latent, "float32")),
        }

    @staticmethod
    def from_diffusers(config: Mapping[str, Any], folder: str) -> TransformerConfig:
        return TransformerConfig(**config)


def _given(config: Any, size: Size) -> dict[str, Any]:
    """Return a Keras input for each input of a network."""
    return {
        name: keras.Input(batch_shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in config.inputs(size).items()
    }


def words(config: WordsConfig, size: Size, name: str) -> keras.Model:
    given = _given(config, size)
    table = "embeddings.token_embedding"
    x = keras.layers.Embedding(config.vocabulary, config.width, name=table)(given["tokens"])
    x = x + dense(ops.silu(layer_norm(x, 1e-5, "norm")), config.width, "layers.0.linear")
    return keras.Model(given, {"context": x}, name=name)


def image_encoder(config: EncodedPicturesConfig, size: Size, name: str) -> keras.Model:
    given = _given(config, size)
    x = conv(given["image"], config.width, "encoder.conv_in")
    x = keras.layers.AveragePooling2D(config.scale)(ops.silu(x))
    return keras.Model(given, {"image_latent": conv(x, config.channels, "encoder.conv_out")}, name=name)


def control(config: ControlConfig, size: Size, name: str) -> keras.Model:
    given = _given(config, size)
    hint = keras.layers.AveragePooling2D(size.scale)(conv(given["hint"], config.width, "hint.conv"))
    time = dense(ops.reshape(given["timestep"], (-1, 1)) / 1000, config.width, "time.linear")
    x = conv(given["latent"], config.width, "conv_in") + hint + ops.reshape(time, (-1, 1, 1, config.width))
    return keras.Model(
        given,
        {part: conv(ops.silu(x), config.channels, f"blocks.{part}") for part in RESIDUALS},
        name=name,
    )


def transformer(config: TransformerConfig, size: Size, name: str) -> keras.Model:
    given = _given(config, size)
    cells = size.rows * size.columns
    steered = given["latent"]
    for i, part in enumerate(RESIDUALS, 1):
        steered = steered + given[part] * (0.01 * i)
    x = conv(ops.concatenate([steered, given["image_latent"]], -1), config.width, "conv_in")
    time = dense(ops.reshape(given["timestep"], (-1, 1)) / 1000, config.width, "time_embedding.linear")
    x = ops.reshape(x + ops.reshape(time, (-1, 1, 1, config.width)), (size.batch, cells, config.width))
    query, key, value = (
        dense(source, config.width, f"blocks.0.attn.to_{part}")
        for part, source in (("q", x), ("k", given["context"]), ("v", given["context"]))
    )
    x = x + dense(attend(query, key, value, heads=2), config.width, "blocks.0.attn.to_out")
    hidden = dense(layer_norm(x, 1e-5, "blocks.1.norm"), 4 * config.width, "blocks.1.ff.in")
    x = x + dense(ops.gelu(hidden, approximate=False), config.width, "blocks.1.ff.out")
    x = ops.reshape(x, (size.batch, size.rows, size.columns, config.width))
    return keras.Model(given, {"noise": conv(x, config.channels, "conv_out")}, name=name)


def image_decoder(config: PicturesConfig, size: Size, name: str) -> keras.Model:
    given = _given(config, size)
    x = ops.silu(conv(given["latent"], config.width, "decoder.conv_in"))
    x = keras.layers.UpSampling2D(config.scale, interpolation="nearest")(x)
    return keras.Model(given, {"image": conv(x, 3, "decoder.conv_out")}, name=name)

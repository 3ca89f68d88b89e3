"""Upscalers: the two networks of Real-ESRGAN (Wang et al., 2021, arXiv 2107.10833).

`rrdb` is basicsr/archs/rrdbnet_arch.py of BasicSR, and `compact` realesrgan/archs/srvgg_arch.py. Both take
`image` (1, rows, columns, 3) in [-1, 1], where those take [0, 1], and return `enlarged` (1, s·rows,
s·columns, 3), where s is `config.scale`; all float32.
"""

from __future__ import annotations

import keras
from keras import ops

from msd.models.blocks import Tensor, conv
from msd.models.networks import Size
from msd.models.upscaler_config import SHARE, SLOPE, CompactConfig, RrdbConfig


def rrdb(config: RrdbConfig, size: Size, name: str) -> keras.Model:
    """Return the model of a network of residual dense blocks."""
    image = _image(config, size)
    first = _first(0.5 * image + 0.5, config)
    x = first
    for block in range(config.blocks):
        dense = x
        for part in ("rdb1", "rdb2", "rdb3"):
            dense = _dense_block(dense, config.growth, f"body.{block}.{part}")
        x = SHARE * dense + x
    x = conv(x, config.features, "conv_body") + first
    for layer in ("conv_up1", "conv_up2"):
        x = keras.layers.UpSampling2D(2, interpolation="nearest", name=f"{layer}.nearest")(x)
        x = _leaky(conv(x, config.features, layer))
    x = _leaky(conv(x, config.features, "conv_hr"))
    return keras.Model(image, {"enlarged": 2.0 * conv(x, 3, "conv_last") - 1.0}, name=name)


def compact(config: CompactConfig, size: Size, name: str) -> keras.Model:
    """Return the model of the compact network, whose layers all have the image's size."""
    image = _image(config, size)
    own = 0.5 * image + 0.5
    x = own
    for layer in range(config.convs + 1):
        x = conv(x, config.features, f"body.{2 * layer}")
        x = keras.layers.PReLU(shared_axes=[1, 2], name=f"body.{2 * layer + 1}")(x)
    x = conv(x, 3 * config.scale**2, f"body.{2 * config.convs + 2}")
    x = ops.depth_to_space(x, config.scale)
    larger = keras.layers.UpSampling2D(config.scale, interpolation="nearest", name="nearest")(own)
    return keras.Model(image, {"enlarged": 2.0 * (x + larger) - 1.0}, name=name)


def _image(config: RrdbConfig | CompactConfig, size: Size) -> Tensor:
    shape, _ = config.inputs(size)["image"]
    return keras.Input(batch_shape=shape, name="image")


def _first(x: Tensor, config: RrdbConfig) -> Tensor:
    """Return the features of the image.

    For a scale of 2 the reference moves the pixels of each 2x2 square into channels and then convolves with
    3x3: a convolution of the image with 6x6 and a stride of 2, whose filters the reader makes.
    """
    if config.scale == 4:
        return conv(x, config.features, "conv_first")
    x = keras.layers.ZeroPadding2D(2, name="conv_first.pad")(x)
    return keras.layers.Conv2D(config.features, 6, strides=2, name="conv_first")(x)


def _dense_block(x: Tensor, growth: int, name: str) -> Tensor:
    """Return `x` plus a share of five convolutions of it, each of which reads all before it."""
    found = [x]
    for i in range(1, 5):
        found.append(_leaky(conv(_joined(found), growth, f"{name}.conv{i}")))
    return SHARE * conv(_joined(found), x.shape[-1], f"{name}.conv5") + x


def _joined(found: list[Tensor]) -> Tensor:
    return ops.concatenate(found, axis=-1) if len(found) > 1 else found[0]


def _leaky(x: Tensor) -> Tensor:
    return ops.leaky_relu(x, SLOPE)

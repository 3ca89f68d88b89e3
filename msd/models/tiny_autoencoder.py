"""The tiny autoencoder, TAESD by Ollin Boer Bohan, as diffusers' AutoencoderTiny computes it.

diffusers has its two halves in diffusers/models/autoencoders/vae.py (`DecoderTiny`, `EncoderTiny`), and their
residual block in diffusers/models/unets/unet_2d_blocks.py (`AutoencoderTinyBlock`).
"""

from __future__ import annotations

import keras
from keras import ops

from msd.models.blocks import Tensor, conv
from msd.models.networks import Size
from msd.models.tiny_config import TinyDecoderConfig, TinyEncoderConfig

LIMIT = 3.0
"""The latents that the decoder can tell apart lie between -3 and 3."""


def tiny_decoder(config: TinyDecoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model for latents of `size`, scaled as the scheduler returns them.

    `latent` (batch, rows, columns, latent_channels) → `image` (batch, s·rows, s·columns, out_channels)
    roughly in [-1, 1], where s is `config.scale`; both float32. The model divides by `scaling_factor`.
    """
    shape = (size.batch, size.rows, size.columns, config.latent_channels)
    latent = keras.Input(batch_shape=shape, name="latent")
    layers = _Layers("decoder")
    x = LIMIT * ops.tanh(latent * (1 / (LIMIT * config.scaling_factor)))
    x = ops.relu(layers.conv(x, config.width))
    layers.skip()
    for level, blocks in enumerate(config.blocks):
        for _ in range(blocks):
            x = layers.block(x)
        if level != len(config.blocks) - 1:
            x = layers.upsample(x, config.upsampling)
            x = layers.conv(x, config.width, bias=False)
    image = 2.0 * layers.conv(x, config.out_channels) - 1.0
    return keras.Model(latent, {"image": image}, name=name)


def tiny_encoder(config: TinyEncoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model for images of `size`.

    `image` (batch, s·rows, s·columns, in_channels) in [-1, 1] → `latent` (batch, rows, columns,
    latent_channels), where s is `config.scale`; both float32. The caller multiplies by `scaling_factor`.
    """
    image = keras.Input(batch_shape=(size.batch, *size.pixels, config.in_channels), name="image")
    layers = _Layers("encoder")
    x = layers.conv(0.5 * image + 0.5, config.width)
    for level, blocks in enumerate(config.blocks):
        if level:
            x = layers.downsample(x)
        for _ in range(blocks):
            x = layers.block(x)
    latent = layers.conv(x, config.latent_channels)
    return keras.Model(image, {"latent": latent}, name=name)


class _Layers:
    """Applies layers one after another, named by their position in a torch Sequential."""

    def __init__(self, half: str) -> None:
        self._half, self._position = half, 0

    def skip(self) -> str:
        """Return the name of the next layer, and pass over it."""
        self._position += 1
        return f"{self._half}.layers.{self._position - 1}"

    def conv(self, x: Tensor, channels: int, bias: bool = True) -> Tensor:
        """Return `x` through a 3x3 convolution at the same size."""
        return conv(x, channels, self.skip(), bias=bias)

    def downsample(self, x: Tensor) -> Tensor:
        """Return `x` at half height and width, padded by one pixel on every side as in torch."""
        name = self.skip()
        x = keras.layers.ZeroPadding2D(1, name=f"{name}.pad")(x)
        return keras.layers.Conv2D(x.shape[-1], 3, strides=2, use_bias=False, name=name)(x)

    def upsample(self, x: Tensor, factor: int) -> Tensor:
        """Return `x` at `factor` times the height and width: nearest neighbour."""
        return keras.layers.UpSampling2D(factor, interpolation="nearest", name=self.skip())(x)

    def block(self, x: Tensor) -> Tensor:
        """Return a residual block's output: three convolutions, each followed by ReLU."""
        name, channels = self.skip(), x.shape[-1]
        hidden = ops.relu(conv(x, channels, f"{name}.conv.0"))
        hidden = ops.relu(conv(hidden, channels, f"{name}.conv.2"))
        return ops.relu(conv(hidden, channels, f"{name}.conv.4") + x)

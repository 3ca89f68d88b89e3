"""The encoder of Stable Diffusion's autoencoder, as diffusers' AutoencoderKL computes it."""

from __future__ import annotations

import keras
from keras import ops

from msd.models.blocks import Tensor, conv, group_norm, middle, resnet
from msd.models.networks import Size
from msd.models.vae_config import VaeEncoderConfig

EPSILON = 1e-6
LEAST, MOST = -30.0, 20.0
"""The bounds of a log-variance in diffusers' DiagonalGaussianDistribution (autoencoders/vae.py)."""


def vae_encoder(config: VaeEncoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model for images of `size.pixels`.

    `image` (batch, height, width, in_channels) in [-1, 1] → `moments` (batch, rows, columns,
    2·latent_channels): the mean and then the log-variance of the latents' distribution, both float32.
    The model neither samples nor scales: a latent as the scheduler takes it is
    scaling_factor · (mean + exp(log-variance / 2) · noise).
    """
    image = keras.Input(batch_shape=config.inputs(size)["image"][0], name="image")
    x = conv(image, config.channels[0], "encoder.conv_in")
    for level, channels in enumerate(config.channels):
        block = f"encoder.down_blocks.{level}"
        for i in range(config.resnets):
            x = resnet(x, None, channels, config.groups, EPSILON, f"{block}.resnets.{i}")
        if level != len(config.channels) - 1:
            x = _downsample(x, f"{block}.downsamplers.0")
    x = middle(x, config.groups, EPSILON, config.mid_attention, "encoder.mid_block")
    x = ops.silu(group_norm(x, config.groups, EPSILON, "encoder.conv_norm_out"))
    x = conv(x, 2 * config.latent_channels, "encoder.conv_out")
    if config.quant_conv:
        x = conv(x, 2 * config.latent_channels, "quant_conv", kernel=1)
    return keras.Model(image, {"moments": bounded(x)}, name=name)


def bounded(moments: Tensor) -> Tensor:
    """Return means and log-variances (…, 2·channels) with the log-variances, the second half, clipped."""
    mean, log_variance = ops.split(moments, 2, axis=-1)
    return ops.concatenate([mean, ops.clip(log_variance, LEAST, MOST)], axis=-1)


def _downsample(x: Tensor, name: str) -> Tensor:
    """Return `x` at half height and width, both even, padded as the U-Net's is not: below and right only."""
    return keras.layers.Conv2D(x.shape[-1], 3, strides=2, padding="same", name=f"{name}.conv")(x)

"""The decoder of Stable Diffusion's autoencoder, as diffusers' AutoencoderKL computes it."""

from __future__ import annotations

import keras
from keras import ops

from msd.models.blocks import Tensor, attend, conv, dense, group_norm, resnet, upsample
from msd.models.config import VaeDecoderConfig

EPSILON = 1e-6


def vae_decoder(config: VaeDecoderConfig, height: int, width: int, batch: int = 1) -> keras.Model:
    """Return the model for latents of `height` by `width` cells, scaled as the scheduler returns them.

    `latent` (batch, height, width, latent_channels) → `image` (batch, s·height, s·width, out_channels)
    roughly in [-1, 1], where s is `config.scale`; both float32. The model divides by `scaling_factor`.
    """
    latent = keras.Input(batch_shape=(batch, height, width, config.latent_channels), name="latent")
    x = latent * (1 / config.scaling_factor)
    if config.post_quant_conv:
        x = conv(x, config.latent_channels, "post_quant_conv", kernel=1)
    x = conv(x, config.channels[-1], "decoder.conv_in")
    x = _middle(config, x)
    for block, channels in enumerate(reversed(config.channels)):
        name = f"decoder.up_blocks.{block}"
        for i in range(config.resnets + 1):
            x = resnet(x, None, channels, config.groups, EPSILON, f"{name}.resnets.{i}")
        if block != len(config.channels) - 1:
            x = upsample(x, f"{name}.upsamplers.0")
    x = ops.silu(group_norm(x, config.groups, EPSILON, "decoder.conv_norm_out"))
    image = conv(x, config.out_channels, "decoder.conv_out")
    return keras.Model(latent, {"image": image}, name="vae_decoder")


def _middle(config: VaeDecoderConfig, x: Tensor) -> Tensor:
    name = "decoder.mid_block"
    x = resnet(x, None, config.channels[-1], config.groups, EPSILON, f"{name}.resnets.0")
    if config.mid_attention:
        x = _attention(config, x, f"{name}.attentions.0")
    return resnet(x, None, config.channels[-1], config.groups, EPSILON, f"{name}.resnets.1")


def _attention(config: VaeDecoderConfig, x: Tensor, name: str) -> Tensor:
    """Return `x` plus single-head self-attention over its cells."""
    batch, height, width, channels = x.shape
    normed = group_norm(x, config.groups, EPSILON, f"{name}.group_norm")
    cells = ops.reshape(normed, (batch, height * width, channels))
    query, key, value = (dense(cells, channels, f"{name}.to_{part}") for part in ("q", "k", "v"))
    mixed = dense(attend(query, key, value, heads=1), channels, f"{name}.to_out.0")
    return x + ops.reshape(mixed, x.shape)

"""The decoder of Stable Diffusion's autoencoder, as diffusers' AutoencoderKL computes it."""

from __future__ import annotations

import keras
from keras import ops

from msd.models.blocks import conv, group_norm, middle, resnet, upsample
from msd.models.networks import Size
from msd.models.vae_config import VaeDecoderConfig

EPSILON = 1e-6


def vae_decoder(config: VaeDecoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model for latents of `size`, scaled as the scheduler returns them.

    `latent` (batch, rows, columns, latent_channels) → `image` (batch, s·rows, s·columns, out_channels)
    roughly in [-1, 1], where s is `config.scale`; both float32. The model divides by `scaling_factor`.
    """
    shape = (size.batch, size.rows, size.columns, config.latent_channels)
    latent = keras.Input(batch_shape=shape, name="latent")
    x = latent * (1 / config.scaling_factor)
    if config.post_quant_conv:
        x = conv(x, config.latent_channels, "post_quant_conv", kernel=1)
    x = conv(x, config.channels[-1], "decoder.conv_in")
    x = middle(x, config.groups, EPSILON, config.mid_attention, "decoder.mid_block")
    for level, channels in enumerate(reversed(config.channels)):
        block = f"decoder.up_blocks.{level}"
        for i in range(config.resnets + 1):
            x = resnet(x, None, channels, config.groups, EPSILON, f"{block}.resnets.{i}")
        if level != len(config.channels) - 1:
            x = upsample(x, f"{block}.upsamplers.0")
    x = ops.silu(group_norm(x, config.groups, EPSILON, "decoder.conv_norm_out"))
    image = conv(x, config.out_channels, "decoder.conv_out")
    return keras.Model(latent, {"image": image}, name=name)

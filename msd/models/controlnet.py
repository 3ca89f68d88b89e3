"""The ControlNet that steers a U-Net by an image, as diffusers' ControlNetModel computes it.

Zhang et al., "Adding Conditional Control to Text-to-Image Diffusion Models" (2023, arXiv 2302.05543): a copy
of the U-Net's way down and middle, whose states are added to the U-Net's own.
"""

from __future__ import annotations

from itertools import pairwise

import keras
from keras import ops

from msd.models.blocks import Tensor, conv
from msd.models.control_config import HINT, SCALE, ControlNetConfig
from msd.models.networks import Size
from msd.models.unet import embed, inputs_of, middle_state, states_down


def controlnet(config: ControlNetConfig, size: Size, name: str) -> keras.Model:
    """Return the model for latents, contexts and hints of `size`.

    It takes what the U-Net does (msd/models/unet.py), `hint` (batch, height, width, 3) in [-1, 1] and `scale`
    (batch, residuals), and returns each residual, times its scale: `control_0`, `control_1`, … of the shapes
    of `UNetConfig.residuals`, the last of them that of the middle; all float32.
    """
    given = inputs_of(config, size)
    x = conv(given["latent"], config.channels[0], "conv_in") + _hint(config, given[HINT])
    time, context = embed(config, given), given["context"]
    states = states_down(config, x, time, context)
    middle = middle_state(config, states[-1], time, context)
    names = [f"controlnet_down_blocks.{i}" for i in range(len(states))] + ["controlnet_mid_block"]
    scales = ops.reshape(given[SCALE], (size.batch, 1, 1, len(names)))
    residuals = {
        residual: conv(state, state.shape[-1], layer, kernel=1) * scales[..., i : i + 1]
        for i, (residual, state, layer) in enumerate(
            zip(config.residuals(size), [*states, middle], names, strict=True)
        )
    }
    return keras.Model(given, residuals, name=name)


def _hint(config: ControlNetConfig, hint: Tensor) -> Tensor:
    """Return the features (batch, rows, columns, channels) of a hint (batch, height, width, 3)."""
    prefix, widths = "controlnet_cond_embedding", config.hint_widths
    x = ops.silu(conv(hint * 0.5 + 0.5, widths[0], f"{prefix}.conv_in"))
    for i, (width, wider) in enumerate(pairwise(widths)):
        x = ops.silu(conv(x, width, f"{prefix}.blocks.{2 * i}"))
        block = f"{prefix}.blocks.{2 * i + 1}"
        x = keras.layers.ZeroPadding2D(1, name=f"{block}.pad")(x)
        x = ops.silu(keras.layers.Conv2D(wider, 3, strides=2, name=block)(x))
    return conv(x, config.channels[0], f"{prefix}.conv_out")

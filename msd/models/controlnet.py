"""The ControlNet that steers a U-Net by an image, as diffusers' ControlNetModel computes it.

Zhang et al., "Adding Conditional Control to Text-to-Image Diffusion Models" (2023, arXiv 2302.05543): a copy
of the U-Net's way down and middle, whose states are added to the U-Net's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import keras
from keras import ops

from msd.models.blocks import Tensor, conv
from msd.models.control_config import ControlNetConfig, FusedUNetConfig
from msd.models.families.control import HINT, SCALE, component_of_control, fused_name
from msd.models.networks import Size
from msd.models.unet import embed, inputs_of, middle_state, noise, states_down


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


def fused_unet(config: FusedUNetConfig, size: Size, name: str) -> keras.Model:
    """Return the model of a U-Net with ControlNets inside, for latents, contexts and hints of `size`.

    It takes what the U-Net does, and of each ControlNet `hint_NAME` and `scale_NAME`; the U-Net's states get
    the sum of all residuals.
    """
    given = inputs_of(config, size)
    every = [_residuals(control, own, size, given) for control, own in config.controls]
    residuals = [reduce(add, (found[key] for found in every)) for key in config.residuals(size)]
    return keras.Model(given, {"noise": noise(config, given, residuals)}, name=name)


def _residuals(name: str, config: ControlNetConfig, size: Size, given: Mapping[str, Tensor]) -> Any:
    """Return the residuals, by name, of the ControlNet `name` inside a U-Net that is `given` its inputs.

    Its variables are below its component's name. Of the channels of a U-Net's latents that reads a mask or
    an image too, the first are those of the latents.
    """
    component = component_of_control(name)
    with keras.name_scope(component):
        model = controlnet(config, size, component)
    own = {key: given[key] for key in config.inputs(size) if key in given}
    if given["latent"].shape[-1] != config.in_channels:
        own["latent"] = given["latent"][..., : config.in_channels]
    return model({**own, **{key: given[fused_name(key, name)] for key in (HINT, SCALE)}})


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

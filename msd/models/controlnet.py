"""The ControlNet that steers a U-Net by an image, as diffusers' ControlNetModel computes it.

Zhang et al., "Adding Conditional Control to Text-to-Image Diffusion Models" (2023, arXiv 2302.05543): a copy
of the U-Net's way down and middle, whose states are added to the U-Net's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import keras
from keras import ops

from msd.models import settings
from msd.models.blocks import Tensor, conv
from msd.models.config import ATTENTION_DOWN, ATTENTION_UP, DOWN_BLOCKS, UNetConfig
from msd.models.families.control import MOST_RESIDUALS
from msd.models.networks import Size
from msd.models.trace import InputSpecs
from msd.models.unet import embed, inputs_of, middle_state, states_down

HINT, SCALE = "hint", "scale"
HINT_CHANNELS = 3


@dataclass(frozen=True)
class ControlNetConfig(UNetConfig):
    """The configuration of the U-Net that a ControlNet is half of, and the widths of its hint's layers."""

    hint_widths: tuple[int, ...]

    @property
    def hint_scale(self) -> int:
        """The number of pixels along the side of a latent cell: every width after the first halves a hint."""
        return int(2 ** (len(self.hint_widths) - 1))

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of each input: those of the U-Net, the hint and the residuals' scale."""
        hint = (size.batch, size.rows * self.hint_scale, size.columns * self.hint_scale, HINT_CHANNELS)
        return {
            **super().inputs(size),
            HINT: (hint, "float32"),
            SCALE: ((size.batch, len(self.residuals(size))), "float32"),
        }

    @staticmethod
    def from_diffusers(config: Mapping[str, Any], folder: str) -> ControlNetConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = settings.Reader(folder, config)
        read.refuse_other(ONLY)
        shared = {key: value for key, value in config.items() if key not in OWN}
        down = config.get("down_block_types", DOWN_BLOCKS)
        if isinstance(down, list | tuple):
            shared["up_block_types"] = [MIRRORED.get(str(kind), kind) for kind in down][::-1]
        unet = UNetConfig.from_diffusers({**shared, "_class_name": "UNet2DConditionModel"}, folder)
        if len(unet.residuals(Size(0, 0))) > MOST_RESIDUALS:
            read.wrong("layers_per_block", unet.resnets, f"at most {MOST_RESIDUALS} residuals are supported")
        return ControlNetConfig(
            **{field.name: getattr(unet, field.name) for field in fields(UNetConfig)},
            hint_widths=read.counts("conditioning_embedding_out_channels", (16, 32, 96, 256)),
        )


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


MIRRORED = {ATTENTION_DOWN: ATTENTION_UP, "DownBlock2D": "UpBlock2D"}

ONLY: dict[str, tuple[Any, ...]] = {
    "_class_name": ("ControlNetModel",),
    "conditioning_channels": (HINT_CHANNELS,),
    "controlnet_conditioning_channel_order": ("rgb",),
    "global_pool_conditions": (False,),
    "mid_block_type": ("UNetMidBlock2DCrossAttn",),
    "out_channels": (None,),
    "time_cond_proj_dim": (None,),
    "time_embedding_dim": (None,),
    "up_block_types": (None,),
}
"""The only values that we can build, the default first; a U-Net has more settings than a ControlNet."""

OWN = (
    "_class_name",
    "conditioning_channels",
    "conditioning_embedding_out_channels",
    "controlnet_conditioning_channel_order",
    "global_pool_conditions",
)
"""The settings that a U-Net does not have."""

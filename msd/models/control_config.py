"""The configuration of a ControlNet, read from diffusers' config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from msd.models import settings
from msd.models.config import (
    ATTENTION_DOWN,
    ATTENTION_UP,
    DOWN_BLOCKS,
    PLAIN_MIDDLE,
    REVERSE_TRANSFORMERS,
    TRANSFORMERS,
    ControlledUNetConfig,
    UNetConfig,
    UnevenUNetConfig,
)
from msd.models.families.control import HINT, MOST_RESIDUALS, SCALE, component_of_control, fused_name
from msd.models.networks import Size
from msd.models.trace import InputSpecs

HINT_CHANNELS = 3


@dataclass(frozen=True)
class ControlNetConfig(UNetConfig):
    """The configuration of the U-Net that a ControlNet is half of, and the widths of its hint's layers.

    `middle_layers`: its own transformer layers in the middle, None where it is one residual block (diffusers'
    UNetMidBlock2D).
    """

    hint_widths: tuple[int, ...]
    middle_layers: int | None

    @property
    def middle_depth(self) -> int | None:
        """The number of transformer layers in the middle; None where it is one residual block."""
        return self.middle_layers

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
        if isinstance(layers := config.get(TRANSFORMERS), list | tuple):
            shared[REVERSE_TRANSFORMERS] = [1] * len(layers)  # of a way up, which it does not have
        unet = UNetConfig.from_diffusers({**shared, "_class_name": "UNet2DConditionModel"}, folder)
        if isinstance(unet, UnevenUNetConfig) and any(len({*level}) > 1 for level in unet.down):
            read.wrong(TRANSFORMERS, unet.down, "one number for each level was expected")
        if len(unet.residuals(Size(0, 0))) > MOST_RESIDUALS:
            read.wrong("layers_per_block", unet.resnets, f"at most {MOST_RESIDUALS} residuals are supported")
        return ControlNetConfig(
            **{field.name: getattr(unet, field.name) for field in fields(UNetConfig)},
            hint_widths=read.counts("conditioning_embedding_out_channels", (16, 32, 96, 256)),
            middle_layers=unet.middle_depth,
        )


@dataclass(frozen=True)
class FusedUNetConfig(UNetConfig):
    """A U-Net with ControlNets inside, each by its name."""

    controls: tuple[tuple[str, ControlNetConfig], ...]

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of each input, the hint and the scales of each ControlNet last."""
        own = {
            fused_name(key, name): config.inputs(size)[key]
            for name, config in self.controls
            for key in (HINT, SCALE)
        }
        return {**super().inputs(size), **own}

    def last_modules(self) -> tuple[str, ...]:
        """Return the last modules of the U-Net, and of each ControlNet."""
        inside = (
            f"{component_of_control(name)}.{module}"
            for name, config in self.controls
            for module in config.last_modules()
        )
        return (*super().last_modules(), *inside)

    @staticmethod
    def of(config: UNetConfig, controls: Mapping[str, ControlNetConfig]) -> FusedUNetConfig:
        """Return the configuration of a U-Net with these ControlNets; raises BadCheckpoint as theirs does."""
        takes_residuals = ControlledUNetConfig.of(config)
        known = {each.name: getattr(takes_residuals, each.name) for each in fields(UNetConfig)}
        return FusedUNetConfig(**known, controls=tuple(controls.items()))


MIRRORED = {ATTENTION_DOWN: ATTENTION_UP, "DownBlock2D": "UpBlock2D"}

ONLY: dict[str, tuple[Any, ...]] = {
    "_class_name": ("ControlNetModel",),
    "conditioning_channels": (HINT_CHANNELS,),
    "controlnet_conditioning_channel_order": ("rgb",),
    "global_pool_conditions": (False,),
    "mid_block_type": ("UNetMidBlock2DCrossAttn", PLAIN_MIDDLE),
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

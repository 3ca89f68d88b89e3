"""The configurations of Stable Diffusion XL's text encoders, as diffusers stores them."""

from __future__ import annotations

from dataclasses import dataclass

from msd.models import settings
from msd.models.config import Settings, TextEncoderConfig, text_settings

OLD_END = 2
"""What configurations of transformers before 4.31 say of the end token: the largest id of each row is one."""


@dataclass(frozen=True)
class FirstEncoderConfig(TextEncoderConfig):
    """A CLIP text transformer without its last norm, its last layer, and `skipped` layers before that."""

    skipped: int = 0

    @property
    def unread(self) -> tuple[str, ...]:
        """The beginnings of the names of tensors that the network has no place for."""
        unused = range(self.layers - 1 - self.skipped, self.layers)
        return (*(f"encoder.layers.{i}." for i in unused), "final_layer_norm.")

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> FirstEncoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        return FirstEncoderConfig(**text_settings(settings.Reader(folder, config), "CLIPTextModel"))


@dataclass(frozen=True)
class SecondEncoderConfig(TextEncoderConfig):
    """A CLIP text transformer with a projection of the state of the token `end`, to `pooled` numbers.

    Its context is the state before the last layer and `skipped` others.
    """

    pooled: int
    end: int
    skipped: int = 0

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> SecondEncoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = settings.Reader(folder, config)
        return SecondEncoderConfig(
            **text_settings(read, "CLIPTextModelWithProjection"),
            pooled=read.count("projection_dim", 512),
            end=read.count("eos_token_id", 49407),
        )

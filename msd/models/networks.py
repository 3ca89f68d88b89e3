"""The three networks for one picture size: what builds each, and the inputs it is to be traced with."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msd.errors import BadConfig
from msd.models.config import TextEncoderConfig, UNetConfig, VaeDecoderConfig
from msd.models.trace import InputSpecs


@dataclass(frozen=True)
class Network:
    """A Keras model to be: `build()` returns it; `inputs` are the shape and dtype of each input by name.

    `description` says all that decides the model; two networks with the same one are the same.
    """

    build: Callable[[], Any]
    inputs: InputSpecs
    description: str


def networks(
    text_encoder: TextEncoderConfig,
    unet: UNetConfig,
    vae_decoder: VaeDecoderConfig,
    height: int | None = None,
    width: int | None = None,
    batch: int = 1,
) -> dict[str, Network]:
    """Return "text_encoder", "unet" and "vae_decoder" for pictures of `height` by `width` pixels.

    The default is the size that the U-Net was trained on. Raises BadConfig for a size that the levels do not
    divide.
    """
    rows, columns = latent_size(unet, vae_decoder, height, width)
    latent = ((batch, rows, columns, unet.in_channels), "float32")
    context = ((batch, text_encoder.length, unet.context_width), "float32")
    inputs = {"latent": latent, "timestep": ((batch,), "float32"), "context": context}
    if unet.guidance_width is not None:
        inputs["guidance_embedding"] = ((batch, unet.guidance_width), "float32")

    latents = ((batch, rows, columns, vae_decoder.latent_channels), "float32")
    length = text_encoder.length
    tokens = {"tokens": ((batch, length), "int32")}
    return {
        "text_encoder": _network("text_encoder", tokens, text_encoder, batch),
        "unet": _network("unet", inputs, unet, rows, columns, length, batch),
        "vae_decoder": _network("vae_decoder", {"latent": latents}, vae_decoder, rows, columns, batch),
    }


def _network(component: str, inputs: InputSpecs, *arguments: Any) -> Network:
    """Return the network that msd.models.`component` builds from `arguments`."""

    def build() -> Any:
        module = importlib.import_module(f"msd.models.{component}")
        return getattr(module, component)(*arguments)

    return Network(build, inputs, f"{component}{arguments}")


def latent_size(
    unet: UNetConfig, vae_decoder: VaeDecoderConfig, height: int | None, width: int | None
) -> tuple[int, int]:
    """Return rows and columns of the latent of a picture of `height` by `width` pixels."""
    step = vae_decoder.scale * 2 ** (len(unet.channels) - 1)
    sizes = []
    for name, pixels, cells in (("height", height, unet.size[0]), ("width", width, unet.size[1])):
        pixels = cells * vae_decoder.scale if pixels is None else pixels
        if pixels < step or pixels % step:
            raise BadConfig(f"the {name} of {pixels} pixels must be a multiple of {step}")
        sizes.append(pixels // vae_decoder.scale)
    return sizes[0], sizes[1]

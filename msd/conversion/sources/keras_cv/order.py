"""The weights of keras-cv's Stable Diffusion in keras-cv's order, by the names that diffusers gives them.

keras-cv's files list weights layer by layer, in the order of `model.layers`, under automatic names
("conv2d_17") without meaning. The order is therefore derived here from keras-cv 0.9's own code
(keras_cv/src/models/stable_diffusion/{text_encoder,image_encoder,diffusion_model,decoder}.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msd.models.config import TextEncoderConfig, UNetConfig
from msd.models.vae_config import VaeDecoderConfig, VaeEncoderConfig


@dataclass(frozen=True)
class Slot:
    """The place of a weight: diffusers' name of the tensor, and the shape that Keras gives it."""

    name: str
    shape: tuple[int, ...]


def text_encoder(config: TextEncoderConfig) -> Iterator[Slot]:
    """Yield the weights of TextEncoder and TextEncoderV2, which differ in width, depth and activation."""
    width = config.width
    yield Slot("embeddings.token_embedding.weight", (config.vocabulary, width))
    yield Slot("embeddings.position_embedding.weight", (config.length, width))
    for i in range(config.layers):
        name = f"encoder.layers.{i}"
        yield from _norm(f"{name}.layer_norm1", width)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _dense(f"{name}.self_attn.{part}", width, width)
        yield from _norm(f"{name}.layer_norm2", width)
        yield from _dense(f"{name}.mlp.fc1", width, config.hidden)
        yield from _dense(f"{name}.mlp.fc2", config.hidden, width)
    yield from _norm("final_layer_norm", width)


def unet(config: UNetConfig) -> Iterator[Slot]:
    """Yield the weights of DiffusionModel and DiffusionModelV2, which has linear projections."""
    first = config.channels[0]
    # Keras sorts layers by their distance from the output, and therefore puts the first convolution here.
    yield from _dense("time_embedding.linear_1", first, config.time_width)
    yield from _conv("conv_in", config.in_channels, first)
    yield from _dense("time_embedding.linear_2", config.time_width, config.time_width)
    skips = [first]
    yield from _down(config, skips)
    yield from _resnet("mid_block.resnets.0", skips[-1], config.channels[-1], config.time_width)
    yield from _transformer(config, "mid_block.attentions.0", config.channels[-1])
    yield from _resnet("mid_block.resnets.1", config.channels[-1], config.channels[-1], config.time_width)
    yield from _up(config, skips)
    yield from _norm("conv_norm_out", first)
    yield from _conv("conv_out", first, config.out_channels)


def vae_decoder(config: VaeDecoderConfig) -> Iterator[Slot]:
    """Yield the weights of Decoder, whose attention has 1x1 convolutions in place of linear layers."""
    latent, x = config.latent_channels, config.channels[-1]
    yield from _conv("post_quant_conv", latent, latent, kernel=1)
    yield from _conv("decoder.conv_in", latent, x)
    yield from _middle("decoder.mid_block", x)
    for block, channels in enumerate(reversed(config.channels)):
        name = f"decoder.up_blocks.{block}"
        for i in range(config.resnets + 1):
            yield from _resnet(f"{name}.resnets.{i}", x, channels)
            x = channels
        if block != len(config.channels) - 1:
            yield from _conv(f"{name}.upsamplers.0.conv", x, x)
    yield from _norm("decoder.conv_norm_out", x)
    yield from _conv("decoder.conv_out", x, config.out_channels)


def vae_encoder(config: VaeEncoderConfig) -> Iterator[Slot]:
    """Yield the weights of ImageEncoder; its attention too has 1x1 convolutions."""
    x = config.channels[0]
    yield from _conv("encoder.conv_in", config.in_channels, x)
    for level, channels in enumerate(config.channels):
        name = f"encoder.down_blocks.{level}"
        for i in range(config.resnets):
            yield from _resnet(f"{name}.resnets.{i}", x, channels)
            x = channels
        if level != len(config.channels) - 1:
            yield from _conv(f"{name}.downsamplers.0.conv", x, x)
    yield from _middle("encoder.mid_block", x)
    yield from _norm("encoder.conv_norm_out", x)
    yield from _conv("encoder.conv_out", x, 2 * config.latent_channels)
    yield from _conv("quant_conv", 2 * config.latent_channels, 2 * config.latent_channels, kernel=1)


ORDERS: dict[str, Callable[[Any], Iterator[Slot]]] = {
    "text_encoder": text_encoder,
    "vae_encoder": vae_encoder,
    "unet": unet,
    "vae_decoder": vae_decoder,
}
"""The order of each component, a function of its configuration."""


def _down(config: UNetConfig, skips: list[int]) -> Iterator[Slot]:
    """Yield the down blocks, and add the channels of each skip connection to `skips`."""
    for level, channels in enumerate(config.channels):
        block = f"down_blocks.{level}"
        for i in range(config.resnets[level]):
            yield from _resnet(f"{block}.resnets.{i}", skips[-1], channels, config.time_width)
            if config.down_attention[level]:
                yield from _transformer(config, f"{block}.attentions.{i}", channels)
            skips.append(channels)
        if level != len(config.channels) - 1:
            yield from _conv(f"{block}.downsamplers.0.conv", channels, channels)
            skips.append(channels)


def _up(config: UNetConfig, skips: list[int]) -> Iterator[Slot]:
    x = config.channels[-1]
    for block, level in enumerate(reversed(range(len(config.channels)))):
        name, channels = f"up_blocks.{block}", config.channels[level]
        for i in range(config.resnets[level] + 1):
            yield from _resnet(f"{name}.resnets.{i}", x + skips.pop(), channels, config.time_width)
            if config.up_attention[level]:
                yield from _transformer(config, f"{name}.attentions.{i}", channels)
            x = channels
        if level:
            yield from _conv(f"{name}.upsamplers.0.conv", x, x)


def _resnet(name: str, inputs: int, outputs: int, time: int | None = None) -> Iterator[Slot]:
    yield from _norm(f"{name}.norm1", inputs)
    yield from _conv(f"{name}.conv1", inputs, outputs)
    if time is not None:
        yield from _dense(f"{name}.time_emb_proj", time, outputs)
    yield from _norm(f"{name}.norm2", outputs)
    yield from _conv(f"{name}.conv2", outputs, outputs)
    if inputs != outputs:
        yield from _conv(f"{name}.conv_shortcut", inputs, outputs, kernel=1)


def _middle(name: str, channels: int) -> Iterator[Slot]:
    yield from _resnet(f"{name}.resnets.0", channels, channels)
    yield from _norm(f"{name}.attentions.0.group_norm", channels)
    for part in ("to_q", "to_k", "to_v", "to_out.0"):
        yield from _conv(f"{name}.attentions.0.{part}", channels, channels, kernel=1)
    yield from _resnet(f"{name}.resnets.1", channels, channels)


def _transformer(config: UNetConfig, name: str, channels: int) -> Iterator[Slot]:
    def project(part: str) -> Iterator[Slot]:
        if config.linear_projection:
            return _dense(f"{name}.{part}", channels, channels)
        return _conv(f"{name}.{part}", channels, channels, kernel=1)

    block = f"{name}.transformer_blocks.0"
    yield from _norm(f"{name}.norm", channels)
    yield from project("proj_in")
    yield from _norm(f"{block}.norm1", channels)
    yield from _attention(f"{block}.attn1", channels, channels)
    yield from _norm(f"{block}.norm2", channels)
    yield from _attention(f"{block}.attn2", channels, config.context_width)
    yield from _norm(f"{block}.norm3", channels)
    yield from _dense(f"{block}.ff.net.0.proj", channels, 8 * channels)
    yield from _dense(f"{block}.ff.net.2", 4 * channels, channels)
    yield from project("proj_out")


def _attention(name: str, channels: int, source: int) -> Iterator[Slot]:
    yield Slot(f"{name}.to_q.weight", (channels, channels))
    yield Slot(f"{name}.to_k.weight", (source, channels))
    yield Slot(f"{name}.to_v.weight", (source, channels))
    yield from _dense(f"{name}.to_out.0", channels, channels)


def _dense(name: str, inputs: int, outputs: int) -> Iterator[Slot]:
    yield Slot(f"{name}.weight", (inputs, outputs))
    yield Slot(f"{name}.bias", (outputs,))


def _conv(name: str, inputs: int, outputs: int, kernel: int = 3) -> Iterator[Slot]:
    yield Slot(f"{name}.weight", (kernel, kernel, inputs, outputs))
    yield Slot(f"{name}.bias", (outputs,))


def _norm(name: str, channels: int) -> Iterator[Slot]:
    yield Slot(f"{name}.weight", (channels,))
    yield Slot(f"{name}.bias", (channels,))

"""The U-Net that predicts noise (or v), as diffusers' UNet2DConditionModel computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import numpy as np
from keras import ops

from msd.models.blocks import (
    Tensor,
    attend,
    conv,
    dense,
    downsample,
    group_norm,
    layer_norm,
    resnet,
    upsample,
)
from msd.models.config import UNetConfig
from msd.models.networks import Size

LONGEST_PERIOD = 10000.0
TRANSFORMER_EPSILON = 1e-6
BLOCK_EPSILON = 1e-5


def unet(config: UNetConfig, size: Size, name: str) -> keras.Model:
    """Return the model for latents and contexts of `size`.

    `latent` (batch, rows, columns, in_channels), `timestep` (batch,) and `context` (batch, length,
    context_width) → `noise` (batch, rows, columns, out_channels), all float32. A U-Net distilled for guidance
    also has the input `guidance_embedding` (batch, guidance_width), and one of SDXL's kind `text_embeds`
    (batch, added.pooled) and `time_ids_embedding` (batch, 6 · added.size), the sinusoids of the sizes. One
    that is controlled adds the residuals of ControlNets, `control_0`, `control_1`, … to its states.
    """
    given = inputs_of(config, size)
    residuals = [given[each] for each in config.residuals(size)] if config.is_controlled else []
    return keras.Model(given, {"noise": noise(config, given, residuals)}, name=name)


def noise(config: UNetConfig, given: Mapping[str, Tensor], residuals: Sequence[Tensor] = ()) -> Tensor:
    """Return the noise in what a U-Net is given, with the residuals of ControlNets where there are any."""
    time, context = embed(config, given), given["context"]
    skips = states_down(config, conv(given["latent"], config.channels[0], "conv_in"), time, context)
    x = middle_state(config, skips[-1], time, context) if config.middle else skips[-1]
    if residuals:
        *below, middle = residuals
        skips, x = [skip + each for skip, each in zip(skips, below, strict=True)], x + middle
    x = _up(config, x, skips, time, context)
    x = ops.silu(group_norm(x, config.groups, config.epsilon, "conv_norm_out"))
    return conv(x, config.out_channels, "conv_out")


def inputs_of(config: UNetConfig, size: Size) -> dict[str, Tensor]:
    """Return a Keras input for each input of a network, by its name."""
    return {
        name: keras.Input(batch_shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in config.inputs(size).items()
    }


def embed(config: UNetConfig, given: Mapping[str, Tensor]) -> Tensor:
    """Return the embedding (batch, time_width) of the timestep, guidance, pooled text and sizes."""
    time = _time(config, given["timestep"], given.get("guidance_embedding"))
    if config.added is None:
        return time
    return time + _added(
        config, ops.concatenate([given["text_embeds"], given["time_ids_embedding"]], axis=-1)
    )


def _time(config: UNetConfig, timestep: Tensor, guidance: Tensor | None) -> Tensor:
    """Return the time embedding (batch, time_width), from sinusoids (Ho et al., arXiv:2006.11239)."""
    half = config.channels[0] // 2
    exponents = np.arange(half) / (half - config.frequency_shift)
    frequencies = (LONGEST_PERIOD**-exponents).astype("float32")
    angles = ops.reshape(timestep, (-1, 1)) * frequencies
    waves = [ops.cos(angles), ops.sin(angles)]
    x = ops.concatenate(waves if config.cosine_first else waves[::-1], axis=-1)
    if guidance is not None:
        x = x + dense(guidance, config.channels[0], "time_embedding.cond_proj", bias=False)
    x = ops.silu(dense(x, config.time_width, "time_embedding.linear_1"))
    return dense(x, config.time_width, "time_embedding.linear_2")


def _added(config: UNetConfig, x: Tensor) -> Tensor:
    """Return what the pooled text and the sizes add to the time embedding, (batch, time_width)."""
    x = ops.silu(dense(x, config.time_width, "add_embedding.linear_1"))
    return dense(x, config.time_width, "add_embedding.linear_2")


def states_down(config: UNetConfig, x: Tensor, time: Tensor, context: Tensor) -> list[Tensor]:
    """Return the states after each layer of the down blocks, in order."""
    states = [x]
    last = len(config.channels) - 1
    for level, channels in enumerate(config.channels):
        block = f"down_blocks.{level}"
        for i in range(config.resnets[level]):
            x = resnet(x, time, channels, config.groups, config.epsilon, f"{block}.resnets.{i}")
            if config.down_attention[level]:
                depth = config.down_depth(level, i)
                x = _transformer(config, level, depth, x, context, f"{block}.attentions.{i}")
            states.append(x)
        if level != last:
            x = downsample(x, f"{block}.downsamplers.0")
            states.append(x)
    return states


def middle_state(config: UNetConfig, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
    """Return the state after the middle block, whose input is `x`."""
    x = resnet(x, time, config.channels[-1], config.groups, config.epsilon, "mid_block.resnets.0")
    if config.middle_depth is None:
        return x
    level = len(config.channels) - 1
    x = _transformer(config, level, config.middle_depth, x, context, "mid_block.attentions.0")
    return resnet(x, time, config.channels[-1], config.groups, config.epsilon, "mid_block.resnets.1")


def _up(config: UNetConfig, x: Tensor, skips: list[Tensor], time: Tensor, context: Tensor) -> Tensor:
    """Return the state after the up blocks, whose resnets read the states of the down blocks in reverse."""
    kept = list(skips)
    for block, level in enumerate(reversed(range(len(config.channels)))):
        name = f"up_blocks.{block}"
        for i in range(config.resnets[level] + 1):
            x = ops.concatenate([x, kept.pop()], axis=-1)
            channels = config.channels[level]
            x = resnet(x, time, channels, config.groups, config.epsilon, f"{name}.resnets.{i}")
            if config.up_attention[level]:
                x = _transformer(
                    config, level, config.up_depth(level, i), x, context, f"{name}.attentions.{i}"
                )
        if level:
            x = upsample(x, f"{name}.upsamplers.0")
    return x


def _transformer(config: UNetConfig, level: int, depth: int, x: Tensor, context: Tensor, name: str) -> Tensor:
    """Return `x` (batch, height, width, channels) plus the output of transformer blocks over its cells."""
    batch, height, width, channels = x.shape
    cells = (batch, height * width, channels)
    hidden = group_norm(x, config.groups, TRANSFORMER_EPSILON, f"{name}.norm")
    if config.linear_projection:
        hidden = dense(ops.reshape(hidden, cells), channels, f"{name}.proj_in")
    else:
        hidden = ops.reshape(conv(hidden, channels, f"{name}.proj_in", kernel=1), cells)
    for i in range(depth):
        hidden = _block(hidden, context, config.heads[level], f"{name}.transformer_blocks.{i}")
    if config.linear_projection:
        hidden = ops.reshape(dense(hidden, channels, f"{name}.proj_out"), x.shape)
    else:
        hidden = conv(ops.reshape(hidden, x.shape), channels, f"{name}.proj_out", kernel=1)
    return x + hidden


def _block(x: Tensor, context: Tensor, heads: int, name: str) -> Tensor:
    """Return `x` (batch, cells, channels) after self-attention, cross-attention and a feed-forward net."""
    normed = layer_norm(x, BLOCK_EPSILON, f"{name}.norm1")
    x = x + _attention(normed, normed, heads, f"{name}.attn1")
    x = x + _attention(layer_norm(x, BLOCK_EPSILON, f"{name}.norm2"), context, heads, f"{name}.attn2")
    return x + _feed_forward(layer_norm(x, BLOCK_EPSILON, f"{name}.norm3"), f"{name}.ff.net")


def _attention(x: Tensor, source: Tensor, heads: int, name: str) -> Tensor:
    channels = x.shape[-1]
    query = dense(x, channels, f"{name}.to_q", bias=False)
    key, value = (dense(source, channels, f"{name}.to_{part}", bias=False) for part in ("k", "v"))
    return dense(attend(query, key, value, heads), channels, f"{name}.to_out.0")


def _feed_forward(x: Tensor, name: str) -> Tensor:
    """Return the gated feed-forward net of `x` (GEGLU: Shazeer, arXiv:2002.05202)."""
    channels = x.shape[-1]
    value, gate = ops.split(dense(x, 8 * channels, f"{name}.0.proj"), 2, axis=-1)
    return dense(value * ops.gelu(gate, approximate=False), channels, f"{name}.2")

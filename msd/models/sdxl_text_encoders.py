"""The text encoders of Stable Diffusion XL: the states before the last layer, and the second's pooled vector.

Podell et al., "SDXL" (2023, arXiv 2307.01952), section 2.1; diffusers' StableDiffusionXLPipeline,
`encode_prompt`.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from msd.models.blocks import Tensor, dense, layer_norm
from msd.models.networks import Size
from msd.models.sdxl_text_config import OLD_END, FirstEncoderConfig, SecondEncoderConfig
from msd.models.text_encoder import hidden_states


def first_encoder(config: FirstEncoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model: `tokens` int32 (batch, length) → `context` float32 (batch, length, width)."""
    tokens = keras.Input(batch_shape=(size.batch, config.length), dtype="int32", name="tokens")
    *_, context = hidden_states(config, tokens, config.layers - 1 - config.skipped)
    return keras.Model(tokens, {"context": context}, name=name)


def second_encoder(config: SecondEncoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model: `tokens` int32 (batch, length) → `context` and `text_embeds`, both float32.

    `context` is (batch, length, width), and `text_embeds` (batch, pooled) is the projection of the last state
    of the first token that is `end`.
    """
    tokens = keras.Input(batch_shape=(size.batch, config.length), dtype="int32", name="tokens")
    states = hidden_states(config, tokens, config.layers)
    context, last = states[-2 - config.skipped], states[-1]
    last = layer_norm(last, config.epsilon, "final_layer_norm")
    pooled = ops.matmul(_first(tokens, config), last)
    pooled = ops.reshape(pooled, (size.batch, config.width))
    embeds = dense(pooled, config.pooled, "text_projection", bias=False)
    return keras.Model(tokens, {"context": context, "text_embeds": embeds}, name=name)


def _first(tokens: Tensor, config: SecondEncoderConfig) -> Tensor:
    """Return 1 at the first token that is `end`, and else 0: float32 (batch, 1, length).

    Padding may be the same token. Ids are compared as whole numbers, for float16 confuses those of the start
    and the end; no delegate gathers rows by a computed place.
    """
    length = config.length
    end = ops.max(tokens, axis=-1, keepdims=True) if config.end == OLD_END else np.int32(config.end)
    ends = ops.cast(ops.equal(tokens, end), "float32")
    before = ops.matmul(ends, np.triu(np.ones((length, length), "float32"), k=1))
    return ops.reshape(ends * ops.relu(1.0 - before), (-1, 1, length))
